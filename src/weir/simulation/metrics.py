"""Metrics of a replay: each number of the JSON output is defined here and nowhere else.

Means and quantiles of run time and delay are over completed jobs. A wait is the time from submission to the
first start, or to the end of the replay if the job never started. Allocation counts allocated devices over
available device time, from the first submission to the last.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weir.model.nodes import Topology
from weir.model.reasons import EvictionRule
from weir.simulation.fairness import Fairness
from weir.simulation.interval_means import INTERVALS
from weir.simulation.job_recorder import HOSTNAME, JobRecord, JobRecorder
from weir.state.events import WorkloadOutcome

Json = dict[str, object]


def replay_metrics(
    recorder: JobRecorder,
    fairness: Fairness,
    *,
    lost_gpu_s: float,
    end_s: float,
    wall_s: float,
    peak_memory_mb: float,
) -> Json:
    """Return all numbers of a replay that ended at `end_s`."""
    lines = list(recorder.lines.values())
    stops = recorder.rules
    ended_s = max((line.ended_s for line in lines if line.ended_s is not None), default=recorder.first_s)
    return {
        **_of_jobs(lines, end_s),
        "makespan_s": round(ended_s - recorder.first_s, 1),
        "allocation": round(allocation(recorder), 4),
        "entitled": _of_entitled(lines, end_s),
        "fairness": fairness.numbers(recorder.last_s),
        "preemptions": sum(count for rule, count in stops.items() if rule is not EvictionRule.GANG_BROKEN),
        "evictions_by_rule": {rule.value: count for rule, count in sorted(stops.items())},
        "moves": recorder.moves,
        "lost_gpu_hours": round(lost_gpu_s / 3600, 1),
        "topology": _of_gangs(recorder),
        "by_project": _by(lines, end_s, lambda line: line.workload.project),
        "by_type": _by(lines, end_s, lambda line: line.workload.type.value),
        "cycles": len(recorder.cycle_s),
        "cycle_ms_p50": _ms(recorder.cycle_s, 50),
        "cycle_ms_p99": _ms(recorder.cycle_s, 99),
        "wall_s": round(wall_s, 2),
        "peak_memory_mb": round(peak_memory_mb, 1),
    }


def delays_s(lines: Sequence[JobRecord]) -> list[float]:
    """Return the delay of each completed job against a run on an empty cluster."""
    return [
        line.ended_s - line.workload.submitted_s - line.duration_s
        for line in lines
        if line.ended_s is not None and line.how is WorkloadOutcome.SUCCEEDED
    ]


def wait_s(line: JobRecord, end_s: float) -> float:
    """Return the time from submission to the first start, or to the end if there was none."""
    start_s = line.first_start_s
    if start_s is None:
        start_s = line.ended_s if line.ended_s is not None else end_s
    return start_s - line.workload.submitted_s


def allocation(recorder: JobRecorder) -> float:
    """Return allocated device time as a part of available device time, over the submission window."""
    available = sum(recorder.capacity.means(INTERVALS))
    allocated = sum(sum(timeline.means(INTERVALS)) for timeline in recorder.allocated.values())
    return allocated / available if available else 0.0


def _of_jobs(lines: Sequence[JobRecord], end_s: float) -> Json:
    delays = delays_s(lines)
    completed = [line for line in lines if line.how is WorkloadOutcome.SUCCEEDED]
    return {
        "jobs": len(lines),
        "completed": len(completed),
        "failed": len([line for line in lines if line.how is WorkloadOutcome.FAILED]),
        "jct_mean_s": _mean([(line.ended_s or 0.0) - line.workload.submitted_s for line in completed]),
        "delay_mean_s": _mean(delays),
        "delay_p50_s": _quantile(delays, 50),
        "delay_p99_s": _quantile(delays, 99),
        "first_start_wait_mean_s": _mean([wait_s(line, end_s) for line in lines]),
    }


def _of_entitled(lines: Sequence[JobRecord], end_s: float) -> Json:
    waits = [wait_s(line, end_s) for line in lines if line.entitled]
    return {
        "jobs": len(waits),
        "wait_mean_s": _mean(waits),
        "wait_p99_s": _quantile(waits, 99),
        "over_60s": len([wait for wait in waits if wait > 60]),
    }


def _by(lines: Sequence[JobRecord], end_s: float, key_of: Callable[[JobRecord], str]) -> dict[str, Json]:
    parts: dict[str, list[JobRecord]] = {}
    for line in lines:
        parts.setdefault(key_of(line), []).append(line)
    return {
        name: {
            **_of_jobs(part, end_s),
            "entitled": _of_entitled(part, end_s),
            "preemptions": sum(line.stops for line in part),
        }
        for name, part in sorted(parts.items())
    }


def _of_gangs(recorder: JobRecorder) -> Json:
    """Return the number of multi-pod gangs, those that ended in one domain, and their mean of domains."""
    finest = next(iter(recorder.topologies.values()), None)
    spans = [
        _domains(line, recorder, finest)
        for line in recorder.lines.values()
        if finest is not None and line.how is WorkloadOutcome.SUCCEEDED
        if line.nodes and line.workload.pods > 1
    ]
    return {
        "gangs": len(spans),
        "one_domain": sum(span == 1 for span in spans),
        "domains_mean": _mean(spans, 3),
    }


def _domains(line: JobRecord, recorder: JobRecorder, finest: Topology) -> int:
    """Return the number of domains that a gang ran in when it ended."""
    asked = line.workload.topology
    topology = finest if asked is None else recorder.topologies[asked.name]
    level = None if asked is None else asked.preferred or asked.required
    if level is None:
        level = next((name for name in reversed(topology.levels) if name != HOSTNAME), topology.levels[-1])
    levels = topology.levels[: topology.levels.index(level) + 1]
    domains = set()
    for name in line.nodes:
        node = recorder.nodes.get(name)
        labels: Mapping[str, str] = node.labels if node is not None else {}
        domains.add(tuple(labels.get(level, name) for level in levels))
    return len(domains)


def _mean(values: Sequence[float], digits: int = 1) -> float:
    return round(sum(values) / len(values), digits) if values else 0.0


def _quantile(values: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(values, percent)), 1) if len(values) else 0.0


def _ms(seconds: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(seconds, percent)) * 1000, 3) if len(seconds) else 0.0
