"""Measures the dashboard, and prints each figure beside what it must be and what is aimed at.

    python -m bench.dashboard [page viewers what_if history kills access] [--quick]

All of it takes about ten minutes on two cores. It ends with 1 if a figure is over its limit.
"""

import argparse
import sys

from bench.dashboard_access import access
from bench.dashboard_page import page
from bench.dashboard_rows import report
from bench.dashboard_server import history, kills, replay, watch

WORK = {
    "page": page,
    "viewers": watch,
    "what_if": replay,
    "history": history,
    "kills": kills,
    "access": access,
}


def main() -> int:
    """Measure what is named, or all."""
    parser = argparse.ArgumentParser(prog="bench.dashboard", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("which", nargs="*", help=f"{', '.join(WORK)}; all of them if none is named")
    parser.add_argument("--quick", action="store_true", help="fewer rows, kills and workloads")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    for name in args.which:
        if name not in WORK:
            parser.error(f"{name} isn't measured: there are {', '.join(WORK)}")
    rows = (row for name in args.which or WORK for row in WORK[name](args.quick))
    return 0 if report(rows, args.output) else 1


if __name__ == "__main__":
    sys.exit(main())
