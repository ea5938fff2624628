"""Run all benchmarks, one after another.

    python -m bench [dashboard engine hard_states hopeless_owners kubernetes kube_queries kube_size
        node_reports packing quotas session_headroom sessions spot store sweeps topology]
        [--traces DIRECTORY] [--output json] [--quick]

With --quick every figure comes of one replay, and the engine is measured only at the sizes its goals are for.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench.itp import TRACES

LISTS = ("default", "cpu100", "gpushare40", "gpuspec10", "multigpu20")


def commands(traces: Path, quick: bool) -> dict[str, list[str]]:
    """Return the arguments of each benchmark."""
    openb = traces / "openb"
    replays = ["--traces", str(traces), *(["--replays", "1"] if quick else [])]
    return {
        "dashboard": ["--quick"] if quick else [],
        "engine": ["--nodes"] if quick else [],
        "hard_states": ["--nodes", "200"] if quick else [],
        "hopeless_owners": ["--nodes", "100", "--owners", "80"] if quick else [],
        "kubernetes": ["--nodes", "50"] if quick else [],
        "kube_queries": ["--nodes", "1000"] if quick else [],
        "kube_size": [],
        "node_reports": ["--nodes", "100"] if quick else [],
        "packing": [
            str(openb / "openb_node_list_gpu_node.csv"),
            *(str(openb / f"openb_pod_list_{name}.csv.gz") for name in LISTS),
            *(["--seeds", "42"] if quick else []),
        ],
        "quotas": replays,
        "spot": replays,
        "store": ["--quick"] if quick else [],
        "session_headroom": ["--seeds", "1"] if quick else [],
        "sessions": ["--sessions", "10"] if quick else [],
        "sweeps": ["--seeds", "2"] if quick else [],
        "topology": replays,
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("which", nargs="*", help="all of them if none is named")
    parser.add_argument("--traces", type=Path, default=TRACES, help="where the records lie")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    benchmarks = commands(args.traces, args.quick)
    for name in args.which or benchmarks:
        if name not in benchmarks:
            parser.error(f"{name} isn't a benchmark: there are {', '.join(benchmarks)}")
    rows, code = [], 0
    for name in args.which or benchmarks:
        command = [sys.executable, "-m", f"bench.{name}", *benchmarks[name], "--output", args.output]
        kept = subprocess.PIPE if args.output == "json" else None
        done = subprocess.run(command, check=False, stdout=kept, text=True)
        rows += json.loads(done.stdout or "[]")
        if kept is None:
            print(flush=True)
        code = max(code, done.returncode)
    if args.output == "json":
        json.dump(rows, sys.stdout, indent=1)
        print()
    return code


if __name__ == "__main__":
    sys.exit(main())
