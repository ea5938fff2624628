"""`weir demo`."""

import sys
from typing import TYPE_CHECKING

from weir.cli.paint import screen

if TYPE_CHECKING:
    from weir.cli.tour.claims import Facts
    from weir.cli.tour.stage import Stage

FAILED, INTERRUPTED = 1, 130


def demo() -> int:
    """Take the tour: a pool of its own, with real training, in about a minute.

    Eight virtual GPUs and three projects, in a temporary home: a sweep borrows what is idle, an owner comes
    back, the cheapest are stopped and go on later at the very step. Everything that is claimed is checked; it
    ends with 1 if something did not come true. Nothing of it is left afterwards.
    """
    from weir.cli.tour.claims import claims
    from weir.cli.tour.ending import summary
    from weir.cli.tour.stage import Interrupted, Stage, Stuck, missing
    from weir.client.errors import PoolError

    if (wanting := missing()) is not None:
        return _fail(wanting)
    try:
        with Stage() as stage:
            facts = _told(stage)
    except Interrupted:
        left = f"{stage.home} could not be removed" if stage.home.exists() else "its files are gone"
        print(f"\nEnded: everything that was started has ended, and {left}.", file=sys.stderr)
        return INTERRUPTED
    except (Stuck, PoolError) as error:
        return _fail(str(error))
    held = claims(facts)
    print("\n".join(summary(facts, held, screen())))
    return 0 if all(claim.holds for claim in held) else FAILED


def _told(stage: "Stage") -> "Facts":
    """Play it, and gather what is needed to judge it while it is there."""
    from weir.cli.tour.cast import GANG
    from weir.cli.tour.claims import Facts
    from weir.cli.tour.scenes import play
    from weir.cli.tour.show import Show

    print("A pool of eight virtual GPUs, three projects, and real training in numpy.", flush=True)
    stage.begin()
    with Show(stage) as show:
        play(show)
        logs = {
            name: ["".join(stage.pool.logs(name, start=start)) for start in range(1, detail.restarts + 2)]
            for name, detail in show.seen.details.items()
        }
        show.clear()
        saved_s = {name: stage.saved_s(detail.uid) for name, detail in show.seen.details.items()}
        began_s = stage.began_s(show.seen.details[GANG.name].uid)
        return Facts(show.seen, logs, saved_s, began_s, dict(show.alone.ends))


def _fail(sentence: str) -> int:
    print(f"weir: {sentence}", file=sys.stderr)
    return FAILED
