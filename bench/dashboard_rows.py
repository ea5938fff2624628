"""Rows of the dashboard's table of measurements: a value beside its limit."""

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured value and its limit, in the same unit."""

    name: str
    value: float
    limit: float
    unit: str

    @property
    def is_met(self) -> bool:
        """Return True if the value is within its limit."""
        return self.value <= self.limit


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that this part of the values doesn't exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def parser_of(module: str, about: str) -> argparse.ArgumentParser:
    """Return the options that both benchmarks have."""
    parser = argparse.ArgumentParser(prog=f"bench.{module}", description=about)
    parser.add_argument("--quick", action="store_true", help="fewer rows, kills and workloads")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    return parser


def report(rows: Iterable[Measured], output: str) -> None:
    """Print rows as they come, or all as JSON."""
    if output == "json":
        found = [{"name": row.name, "value": row.value, "limit": row.limit, "unit": row.unit} for row in rows]
        print(json.dumps(found))
        return
    print(f"{'what':58} {'measured':>10} {'limit':>8}")
    for row in rows:
        mark = "" if row.is_met else "  over"
        print(f"{row.name:58} {row.value:>10,.4g} {row.limit:>8,.4g} {row.unit}{mark}", flush=True)
