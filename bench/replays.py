"""Replays side by side, one to a process, and their means.

Replays of one record are chaotic: a figure is the mean over replays that differ only in the order of jobs
submitted in the same second.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from time import perf_counter
from typing import Any, TypeVar

from bench.itp import TRACES
from weir.model.policy import PRESETS
from weir.simulation.replay import ReplayResult

Row = dict[str, object]
Task = TypeVar("Task")


SAID_EVERY_S = 10.0


@dataclass(slots=True)
class Said:
    """Progress of a replay, printed to stderr every few seconds."""

    label: str
    began_s: float = field(default_factory=perf_counter)
    last_s: float = field(default_factory=perf_counter)

    def __call__(self, part: float) -> None:
        """Print the part that is done."""
        now_s = perf_counter()
        if now_s - self.last_s >= SAID_EVERY_S:
            self.last_s = now_s
            took = now_s - self.began_s
            print(f"{self.label}: {part:.0%} of the jobs, {took:.0f} s", file=sys.stderr, flush=True)


def run_all(run: Callable[[Task], Row], tasks: Sequence[Task], processes: int) -> list[Row]:
    """Return the row of each task, in order. Tasks and `run` are sent to other processes."""
    if processes == 1 and len(tasks) == 1:
        return [run(tasks[0])]
    rows = []
    with multiprocessing.get_context("spawn").Pool(min(processes, len(tasks)), maxtasksperchild=1) as pool:
        for task, row in zip(tasks, pool.imap(run, tasks), strict=True):
            values = {name: value for name, value in row.items() if not isinstance(value, Mapping)}
            print(f"{task}: {values}", file=sys.stderr, flush=True)
            rows.append(row)
    return rows


def figures(replayed: ReplayResult) -> Row:
    """Return the figures that every benchmark reports of a replay.

    `decide_s` is the engine's part of `wall_s`.
    """
    numbers = replayed.numbers
    entitled = numbers["entitled"]
    fairness = numbers["fairness"]
    assert isinstance(entitled, dict)
    assert isinstance(fairness, dict)
    return {
        "jct_mean_s": numbers["jct_mean_s"],
        "delay_mean_s": numbers["delay_mean_s"],
        "delay_p99_s": numbers["delay_p99_s"],
        "entitled_wait_mean_s": entitled["wait_mean_s"],
        **fairness,
        "preemptions": numbers["preemptions"],
        "lost_gpu_hours": numbers["lost_gpu_hours"],
        "allocation": numbers["allocation"],
        "moves": numbers["moves"],
        "unfinished": numbers["jobs"] - numbers["completed"],  # type: ignore[operator]
        "cycle_ms_p50": numbers["cycle_ms_p50"],
        "cycle_ms_p99": numbers["cycle_ms_p99"],
        "decide_s": round(sum(replayed.recorder.cycle_s), 1),
        "wall_s": numbers["wall_s"],
        "evictions_by_rule": numbers["evictions_by_rule"],
    }


def mean(rows: Sequence[Row]) -> Row:
    """The mean of every figure, of dictionaries by key; with the deviation of the mean JCT."""
    means: Row = _mean(rows)
    jcts = [float(row["jct_mean_s"]) for row in rows]  # type: ignore[arg-type]
    return {**means, "jct_sd_s": round(stdev(jcts), 1) if len(rows) > 1 else 0.0, "replays": len(rows)}


def _mean(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, Mapping):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: _mean([value.get(key, 0) for value in values]) for key in keys}
    return round(fmean(values), 4) if isinstance(first, int | float) else first


def arguments(prog: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every replay."""
    parser = argparse.ArgumentParser(prog=prog, description=(doc or "").split("\n", 1)[0])
    parser.add_argument("--preset", nargs="+", default=list(PRESETS), choices=tuple(PRESETS))
    parser.add_argument("--replays", type=int, default=3, help="that differ in the order within a second")
    parser.add_argument("--traces", type=Path, default=TRACES, help="where the records lie")
    parser.add_argument("--jobs", type=int, help="only this number of jobs, from the first on")
    parser.add_argument("--set", default="{}", help="settings over the preset, as JSON")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", default="text", choices=("text", "json"))
    return parser
