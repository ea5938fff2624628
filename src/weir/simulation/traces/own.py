"""Weir's own trace: one line a workload, everything that can be stated of it, nothing guessed."""

from collections.abc import Iterable
from math import inf
from pathlib import Path

from weir.model.resources import CPU, GPU, MEMORY
from weir.model.scenario import Scenario
from weir.model.workloads import (
    DEFAULT_PRIORITY,
    PREEMPTIBLE_BELOW,
    WHOLE_MILLI,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
    WorkloadType,
)
from weir.simulation.job_trace import JobTrace
from weir.simulation.traces.cells import Cells
from weir.simulation.traces.files import TraceTable
from weir.simulation.traces.mistakes import TraceMistakes

REQUIRED = ("name", "project", "submitted", "duration")
COLUMNS = (
    *REQUIRED,
    "type",
    "pods",
    "gpus",
    "cpu",
    "memory",
    "gpu_memory",
    "devices",
    "gpu_models",
    "min_pods",
    "priority",
    "preemptible",
    "max_runtime",
    "checkpoint_interval",
    "restart",
    "topology",
    "user",
)
_OF_REQUEST = ("gpus", "devices", "gpu_memory", "gpu_models", "cpu", "memory")


def read(path: Path, scenario: Scenario) -> list[JobTrace]:
    """Read the workloads of a trace with their futures.

    Raises:
        InvalidFile: with the mistakes of the file.
    """
    mistakes = TraceMistakes(str(path))
    table = TraceTable(path, mistakes, allowed=COLUMNS, required=REQUIRED)
    lines = _TraceLines(scenario)
    job_traces: list[JobTrace] = []
    line_of: dict[str, int] = {}
    for line, cells in table:
        before = mistakes.total
        job_trace = lines.job_trace(cells)
        name = job_trace.workload.name
        if name in line_of:
            mistakes.add(line, f"name {name!r} is used on line {line_of[name]} already: each is used once")
        line_of.setdefault(name, line)
        if mistakes.total == before:
            job_traces.append(job_trace)
    mistakes.refuse_if_any()
    return job_traces


class _TraceLines:
    """Reads lines against a cluster; equal requests become one object."""

    def __init__(self, scenario: Scenario) -> None:
        self._projects = {queue.name for queue in scenario.queues if queue.is_project}
        self._models = {node.gpu_model for node in scenario.nodes if node.gpu_model is not None}
        self._levels: dict[str, list[str]] = {}
        for topology in scenario.topologies:
            for level in topology.levels:
                self._levels.setdefault(level, []).append(topology.name)
        self._requests: dict[tuple[str, ...], Request] = {}

    def job_trace(self, cells: Cells) -> JobTrace:
        """Return the workload of one line; unusable if the line has errors."""
        name, project = cells.text("name"), cells.text("project")
        if not name or "/" in name:
            cells.note(f"name {name!r} can't be used: write one or more characters without a slash")
        if project not in self._projects:
            cells.note(f"project {project!r} isn't in the cluster file: it has {_listed(self._projects)}")
        submitted_s = cells.time_s("submitted")
        if submitted_s is None and not cells.text("submitted"):
            cells.note("submitted is empty: write seconds from the trace's start")
        duration_s, restart_s = cells.time_s("duration"), cells.time_s("restart")
        save_every_s = cells.time_s("checkpoint_interval")
        if save_every_s == 0:
            cells.note(
                "checkpoint_interval is 0: write the seconds of run between two saved states, or nothing"
            )
        workload = self._workload(cells, name, project, submitted_s or 0.0, restart_s)
        return JobTrace(workload, inf if duration_s is None else duration_s, save_every_s, restart_s or 0.0)

    def _workload(
        self, cells: Cells, name: str, project: str, submitted_s: float, restart_s: float | None
    ) -> Workload:
        type_ = _type(cells)
        pods = cells.whole("pods", 1, least=1)
        min_pods = cells.whole("min_pods", pods, least=1)
        if min_pods > pods:
            cells.note(f"min_pods {min_pods} is more than the {pods} pods there are")
        priority = cells.whole("priority", DEFAULT_PRIORITY[type_], least=-1_000_000)
        return Workload(
            name=name,
            project=project,
            groups=(PodGroup("0", self._request(cells), count=pods, min=min(min_pods, pods)),),
            min_pods=min(min_pods, pods),
            submitted_s=submitted_s,
            type=type_,
            priority=priority,
            preemptible=cells.boolean("preemptible", priority < PREEMPTIBLE_BELOW),
            max_runtime_s=cells.time_s("max_runtime"),
            topology=self._topology(cells),
            user=cells.text("user"),
            restart_s=restart_s,
        )

    def _topology(self, cells: Cells) -> TopologyRequest | None:
        written = cells.text("topology")
        if not written:
            return None
        kind, _, level = written.partition(":")
        if kind not in ("required", "preferred") or not level:
            cells.note(f"topology {written!r} can't be read: write required:LEVEL or preferred:LEVEL")
            return None
        named = self._levels.get(level, [])
        if len(named) != 1:
            count = "no topology" if not named else f"{len(named)} topologies"
            cells.note(
                f"topology level {level!r} is in {count} of the cluster file: use {_listed(self._levels)}"
            )
            return None
        required, preferred = (level, None) if kind == "required" else (None, level)
        return TopologyRequest(named[0], required, preferred)

    def _request(self, cells: Cells) -> Request:
        key = tuple(cells.text(column) for column in _OF_REQUEST)
        request = self._requests.get(key)
        if request is None:
            sound = True

            def note(sentence: str) -> None:
                nonlocal sound
                sound = False
                cells.note(sentence)

            request = self._read_request(Cells(dict(zip(_OF_REQUEST, key, strict=True)), note))
            if sound:
                self._requests[key] = request
        return request

    def _read_request(self, cells: Cells) -> Request:
        models = tuple(filter(None, cells.text("gpu_models").split("|")))
        for model in models:
            if model not in self._models:
                cells.note(f"gpu_models {model!r} isn't in the cluster file: it has {_listed(self._models)}")
        by_memory = cells.text("gpu_memory") != ""
        if by_memory and cells.text("gpus"):
            cells.note("gpus and gpu_memory are both stated: a share is one or the other")
        memory = cells.amount("gpu_memory", MEMORY, 0)
        milli = cells.amount("gpus", GPU, 0 if by_memory else WHOLE_MILLI)
        if milli > WHOLE_MILLI and milli % WHOLE_MILLI:
            cells.note(f"gpus {cells.text('gpus')!r} is neither whole devices nor a share below 1")
        shared = by_memory or 0 < milli < WHOLE_MILLI
        if cells.text("devices") and not shared:
            cells.note(
                "devices is stated for whole devices: it says how many carry a share; write gpus instead"
            )
        carrying = cells.whole("devices", 1, least=1)
        return Request(
            devices=carrying if shared else milli // WHOLE_MILLI,
            share_milli=0 if by_memory else milli if shared else WHOLE_MILLI,
            gpu_memory=memory,
            cpu_milli=cells.amount("cpu", CPU, 1000),
            memory=cells.amount("memory", MEMORY, 1 << 30),
            gpu_models=models,
        )


def _type(cells: Cells) -> WorkloadType:
    written = cells.text("type") or "train"
    try:
        return WorkloadType(written)
    except ValueError:
        cells.note(f"type {written!r} is unknown: use train, build or inference")
        return WorkloadType.TRAIN


def _listed(names: Iterable[str]) -> str:
    some = sorted(names)
    return ", ".join(some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "") or "none"
