"""`weir demo`."""

import sys
from typing import TYPE_CHECKING

from weir.cli.output.terminal import screen
from weir.client.errors import PoolError

if TYPE_CHECKING:
    from weir.cli.demo.checks import DemoOutcome
    from weir.cli.demo.demo_pool import DemoPool

FAILED, INTERRUPTED = 1, 130


def demo() -> int:
    """Run a tour in a temporary pool with real training, in about a minute.

    The pool has eight virtual GPUs and three projects. A sweep borrows idle GPUs until their project needs
    them. The cheapest victims are stopped, and later resume at the same step. The tour checks each of its
    claims; its exit code is 1 if a claim is false. It leaves no process and no file.
    """
    from weir.cli.demo.checks import checks
    from weir.cli.demo.demo_pool import DemoFailed, DemoPool, Interrupted, missing
    from weir.cli.demo.summary import summary

    if (wanting := missing()) is not None:
        return _fail(wanting)
    try:
        with DemoPool() as stage:
            facts = _outcome(stage)
    except Interrupted:
        left = f"{stage.home} could not be removed" if stage.home.exists() else "its files are gone"
        print(f"\nEnded: everything that was started has ended, and {left}.", file=sys.stderr)
        return INTERRUPTED
    except (DemoFailed, PoolError) as error:
        return _fail(str(error))
    results = checks(facts)
    print("\n".join(summary(facts, results, screen())))
    return 0 if all(claim.holds for claim in results) else FAILED


def _outcome(stage: "DemoPool") -> "DemoOutcome":
    """Run the tour, and collect the facts for the checks before the pool is gone."""
    from weir.cli.demo.checks import DemoOutcome
    from weir.cli.demo.jobs import GANG
    from weir.cli.demo.runner import DemoRunner
    from weir.cli.demo.script import play

    print("A pool of eight virtual GPUs, three projects, and real training in numpy.", flush=True)
    stage.begin()
    link = stage.pool.address.url + stage.pool.dashboard_link().path
    print(f"Watch it in a browser, with a link that works once, within a minute: {link}", flush=True)
    with DemoRunner(stage) as show:
        play(show)
        logs = {
            name: ["".join(stage.pool.logs(name, start=start)) for start in range(1, detail.restarts + 2)]
            for name, detail in show.seen.details.items()
        }
        show.clear()
        saved_s = {name: stage.saved_s(detail.uid) for name, detail in show.seen.details.items()}
        began_s = stage.began_s(show.seen.details[GANG.name].uid)
        return DemoOutcome(show.seen, logs, saved_s, began_s, dict(show.alone.ends))


def _fail(sentence: str) -> int:
    print(f"weir: {sentence}", file=sys.stderr)
    return FAILED
