"""The longest decision in states that are hard for the engine, on a cluster of equal nodes of 8 devices.

    python -m bench.hard_states [--nodes 500] [--state refused topology ...] [--preset balanced ...]
        [--limit 60] [--output json]

Each state of `bench.hard_preemptions` and `bench.hard_placements` has a process of its own. It plays cycles
until nothing happens any more, at most 12. Stopped pods are gone after two cycles. `first_s` is the first
decision, `longest_s` the longest, and `total_s` all of them, in processor time. Decisions that take longer
than the limit are broken off, and their stack is on stderr.

Everything else waits for a decision. The exit status is 1 if one takes longer than a second.
"""

import argparse
import faulthandler
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection

from bench import hard_placements, hard_preemptions
from bench.engine import ONE_CORE
from bench.made import Made
from bench.tables import show
from weir.model.policy import PRESETS, Policy
from weir.state.events import PodKey, PodStopped
from weir.state.reduce import reduce

Row = dict[str, object]
STATES = hard_preemptions.STATES | hard_placements.STATES
CYCLES = 12
STOPS_AFTER = 2
"""Cycles until a stopped pod is gone."""
GOAL_S = 1.0


def played(made: Made) -> Row:
    """Cycles until nothing happens any more."""
    took: list[float] = []
    binds = evictions = nominations = 0
    going: list[list[PodKey]] = []
    for _ in range(CYCLES):
        plan, seconds = made.decide()
        took.append(seconds)
        binds, evictions = binds + len(plan.binds), evictions + len(plan.evictions)
        nominations += len(plan.nominations)
        made.carry_out(plan, at_once=False)
        going.append([eviction.pod for eviction in plan.evictions])
        made.now_s += 1.0
        if len(going) >= STOPS_AFTER:
            for pod in going[-STOPS_AFTER]:
                reduce(made.cluster, PodStopped(pod, made.now_s))
        if not plan.acts and not any(going[-STOPS_AFTER:]):
            break
    return {
        "first_s": round(took[0], 3),
        "longest_s": round(max(took), 3),
        "total_s": round(sum(took), 3),
        "cycles": len(took),
        "starts": binds,
        "evictions": evictions,
        "nominations": nominations,
    }


def _measure(state: str, nodes: int, preset: str, limit_s: float, out: Connection) -> None:
    faulthandler.dump_traceback_later(limit_s, exit=True)
    made = STATES[state](nodes, Policy.model_validate({"preset": preset}))
    faulthandler.dump_traceback_later(limit_s, exit=True)
    out.send(played(made))
    faulthandler.cancel_dump_traceback_later()


def measure(state: str, nodes: int, preset: str, limit_s: float) -> Row:
    """Measure one state, in a process of its own."""
    row: Row = {"state": state, "preset": preset, "nodes": nodes}
    spawn = multiprocessing.get_context("spawn")
    answer, out = spawn.Pipe(duplex=False)
    alone = spawn.Process(target=_measure, args=(state, nodes, preset, limit_s, out))
    alone.start()
    out.close()
    try:
        return row | answer.recv()
    except EOFError:
        return row | {"longest_s": f"more than {limit_s:g}"}
    finally:
        alone.join()


def is_good(row: Row) -> bool:
    """Return True if the longest decision is within the goal."""
    longest = row["longest_s"]
    return isinstance(longest, float) and longest <= GOAL_S


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.hard_states", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--state", nargs="+", default=list(STATES), choices=list(STATES))
    parser.add_argument("--preset", nargs="+", default=["balanced"], choices=tuple(PRESETS))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for all decisions of a state")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    os.environ.update(dict.fromkeys(ONE_CORE, "1"))
    rows = []
    for state in args.state:
        for preset in args.preset:
            rows.append(measure(state, args.nodes, preset, args.limit))
            print(f"   {rows[-1]}", file=sys.stderr, flush=True)
    show("Longest decision in hard states", rows, args.output)
    return 0 if all(map(is_good, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
