"""Rows of the dashboard's table of measurements: a value beside its limit."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured value, its limit and what is aimed at, in the same unit."""

    name: str
    value: float
    limit: float
    unit: str
    aim: float | None = None

    @property
    def is_met(self) -> bool:
        """Return True if the value is within its limit."""
        return self.value <= self.limit


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that this part of the values doesn't exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def report(rows: Iterable[Measured], output: str) -> bool:
    """Print rows as they come, or all as JSON; return True if each is within its limit."""
    if output == "json":
        measured_rows = list(rows)
        print(json.dumps([asdict(row) for row in measured_rows]))
        return all(row.is_met for row in measured_rows)
    met = True
    print(f"{'what':72} {'measured':>10} {'must':>8} {'aim':>8}")
    for row in rows:
        met &= row.is_met
        mark = "" if row.is_met else "  OVER"
        aim = "" if row.aim is None else f"{row.aim:,.4g}"
        print(f"{row.name:72} {row.value:>10,.4g} {row.limit:>8,.4g} {aim:>8} {row.unit}{mark}", flush=True)
    return met
