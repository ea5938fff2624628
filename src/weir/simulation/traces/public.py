"""Public traces of GPU clusters, read by name.

Missing values aren't invented. If a format names no team, the cluster must have exactly one project. A job
that never ran is left out. No format has checkpoints; the ITP trace is replayed with a checkpoint
every hour, as its literature does.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

from weir.model.scenario import Scenario
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload
from weir.simulation.job_trace import JobTrace
from weir.simulation.traces.cells import Cells
from weir.simulation.traces.files import TraceTable, text
from weir.simulation.traces.mistakes import TraceMistakes

ITP_SAVES_EVERY_S = 3600.0
ITP_NODE_GPUS = 8
_ITP = ("cluster", "job_id", "submission_time", "duration", "num_gpu")
_OPENB = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_PHILLY_TIME = "%Y-%m-%d %H:%M:%S"


def read_itp(path: Path, scenario: Scenario) -> list[JobTrace]:
    """Read Microsoft's ITP clusters: one project each; more than 8 devices become a gang of 8-device pods.

    Raises:
        InvalidFile: with the mistakes of the file.
    """
    mistakes = TraceMistakes(str(path))
    table = TraceTable(path, mistakes, allowed=None, required=_ITP)
    projects = _Projects(scenario, mistakes)
    job_traces = []
    requests = {gpus: Request(devices=gpus, cpu_milli=0, memory=0) for gpus in range(1, ITP_NODE_GPUS + 1)}
    for line, cells in table:
        gpus = cells.whole("num_gpu", 1, least=1)
        if gpus > ITP_NODE_GPUS and gpus % ITP_NODE_GPUS:
            cells.note(f"num_gpu {gpus} is more than a node of {ITP_NODE_GPUS}, and no whole number of nodes")
        pods = max(1, gpus // ITP_NODE_GPUS)
        project = projects.named(line, cells.text("cluster"))
        workload = Workload(
            name=cells.text("job_id"),
            project=project,
            groups=(PodGroup("worker", requests[min(gpus, ITP_NODE_GPUS)], count=pods, min=pods),),
            min_pods=pods,
            submitted_s=cells.time_s("submission_time") or 0.0,
        )
        job_traces.append(JobTrace(workload, cells.time_s("duration") or 0.0, ITP_SAVES_EVERY_S))
    return _checked(job_traces, mistakes)


def read_openb(path: Path, scenario: Scenario) -> list[JobTrace]:
    """Read Alibaba's openb lists: one pod a line, all of one project; with times if the list has them.

    Raises:
        InvalidFile: with the mistakes of the file.
    """
    mistakes = TraceMistakes(str(path))
    table = TraceTable(path, mistakes, allowed=None, required=_OPENB)
    project = _Projects(scenario, mistakes).only()
    job_traces = []
    for _, cells in table:
        created_s, deleted_s = cells.time_s("creation_time"), cells.time_s("deletion_time")
        workload = Workload(
            name=cells.text("name"),
            project=project,
            groups=(PodGroup("0", _openb_request(cells)),),
            min_pods=1,
            submitted_s=created_s or 0.0,
        )
        run_s = (
            inf
            if deleted_s is None
            else max(0.0, deleted_s - (cells.time_s("scheduled_time") or created_s or 0.0))
        )
        job_traces.append(JobTrace(workload, run_s))
    return _checked(job_traces, mistakes)


def _openb_request(cells: Cells) -> Request:
    devices = cells.whole("num_gpu", 0, least=0)
    milli = cells.whole("gpu_milli", 0, least=0)
    if devices == 1 and not 0 < milli <= WHOLE_MILLI:
        cells.note(f"gpu_milli {milli} is no share of a device: 1 to {WHOLE_MILLI}")
    return Request(
        devices=devices,
        share_milli=milli if devices == 1 else WHOLE_MILLI,
        cpu_milli=cells.whole("cpu_milli", 0, least=0),
        memory=cells.whole("memory_mib", 0, least=0) << 20,
        gpu_models=tuple(filter(None, cells.text("gpu_spec").split("|"))),
    )


def read_philly(path: Path, scenario: Scenario) -> list[JobTrace]:
    """Read Microsoft's Philly log: one project for each virtual cluster; pods as in the last attempt.

    A job's run is that of all its attempts together. Times count from the first submission.

    Raises:
        InvalidFile: with the mistakes of the file.
    """
    mistakes = TraceMistakes(str(path))
    try:
        jobs = json.loads(text(path))
    except json.JSONDecodeError as error:
        mistakes.add(error.lineno, f"is not JSON: {error.msg}")
        jobs = []
    except (RecursionError, ValueError):
        mistakes.add(1, "is nested too deeply or has a number too long; write a list of jobs")
        jobs = []
    if not isinstance(jobs, list):
        mistakes.add(1, "is not a list of jobs")
        jobs = []
    projects = _Projects(scenario, mistakes)
    raw = []
    for number, job in enumerate(jobs, start=1):
        try:
            parsed = _philly_job(job)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            mistakes.add(0, f"job {number} can't be read: {type(error).__name__} {error}")
            continue
        if parsed is not None:
            raw.append((projects.named(0, job["vc"]), job, *parsed))
    first = min((submitted for _, _, submitted, _, _ in raw), default=None)
    job_traces = []
    for project, job, submitted, run_s, groups in raw:
        assert first is not None
        workload = Workload(
            name=job["jobid"],
            project=project,
            groups=groups,
            min_pods=sum(group.count for group in groups),
            submitted_s=(submitted - first).total_seconds(),
            user=str(job.get("user") or ""),
        )
        job_traces.append(JobTrace(workload, run_s))
    return _checked(job_traces, mistakes)


def _philly_job(job: Mapping[str, Any]) -> tuple[datetime, float, tuple[PodGroup, ...]] | None:
    """Return a job's submission, run time and pods; None if it never ran on a device."""
    run_s, machines = 0.0, Counter[int]()
    for attempt in job["attempts"]:
        start, end = _philly_time(attempt.get("start_time")), _philly_time(attempt.get("end_time"))
        if start is None or end is None:
            continue
        run_s += max(0.0, (end - start).total_seconds())
        detail = Counter(len(machine["gpus"]) for machine in attempt.get("detail") or () if machine["gpus"])
        machines = detail or machines
    submitted = _philly_time(job["submitted_time"])
    if submitted is None or not machines:
        return None
    groups = tuple(
        PodGroup(f"gpus-{gpus}", Request(devices=gpus, cpu_milli=0, memory=0), count=pods, min=pods)
        for gpus, pods in sorted(machines.items(), reverse=True)
    )
    return submitted, run_s, groups


def _philly_time(written: str | None) -> datetime | None:
    if written in (None, "", "None"):
        return None
    return datetime.strptime(str(written), _PHILLY_TIME).replace(tzinfo=UTC)  # only differences matter


class _Projects:
    """The projects of the cluster a trace is replayed on."""

    def __init__(self, scenario: Scenario, mistakes: TraceMistakes) -> None:
        self._names = {queue.name for queue in scenario.queues if queue.is_project}
        self._mistakes = mistakes
        self._missed: set[str] = set()

    def named(self, line: int, name: str) -> str:
        """Return a project by name; report a missing project once."""
        if name not in self._names and name not in self._missed:
            self._missed.add(name)
            self._mistakes.add(line, f"the cluster file has no project {name!r}: add it, with its quota")
        return name

    def only(self) -> str:
        """Return the only project."""
        if len(self._names) != 1:
            sentence = (
                f"names no teams, and the cluster file has {len(self._names)} projects: give it exactly one"
            )
            self._mistakes.add(0, sentence)
        return min(self._names, default="")


def _checked(job_traces: Iterable[JobTrace], mistakes: TraceMistakes) -> list[JobTrace]:
    checked = list(job_traces)
    for name, uses in Counter(job_trace.workload.name for job_trace in checked).items():
        if uses > 1 or not name:
            mistakes.add(0, f"job {name!r} is named {uses} times: each is named once")
    mistakes.refuse_if_any()
    return checked
