"""Run a week in a cluster: `python -m tests.kubernetes.week [--minutes 30] [--seed N]`.

It starts a control plane of its own with the stock kube-scheduler and Weir as installed, and ends it again.
"""

import argparse
import os
import random
import shutil
import sys
import time
from pathlib import Path

from tests.kubernetes.group_plane import plane_with_groups
from tests.kubernetes.week.run import Pace, Week
from tests.kubernetes.week.setup import installed
from tools.controlplane.binaries import find
from tools.controlplane.cluster import Cluster


def main() -> int:
    """Run from the command line; the status is 1 if an invariant didn't hold."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kubernetes.week", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument(
        "--patience", type=float, default=Pace().patience_s, help="seconds; more on a busy machine"
    )
    parser.add_argument("--keep-logs", type=Path, help="a directory for the logs of Weir")
    args = parser.parse_args()
    os.environ.setdefault("GOGC", "400")
    print(f"seed {args.seed}", flush=True)
    with plane_with_groups(find()) as plane:
        try:
            with (
                installed(Cluster(plane)) as replicas,
                Week(Cluster(plane), replicas, args.seed, Pace(patience_s=args.patience)) as week,
            ):
                report = week.go(args.steps, time.monotonic() + 60 * args.minutes)
        finally:
            if args.keep_logs is not None:
                args.keep_logs.mkdir(parents=True, exist_ok=True)
                for log in plane.directory.glob("*.log"):
                    shutil.copy(log, args.keep_logs)
    print(report.text())
    print(f"didn't happen: {report.never}")
    for failure in report.failures:
        print(f"\n{failure}")
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())
