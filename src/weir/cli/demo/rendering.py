"""Sentences of the engine, merged where several jobs have the same one."""

from collections.abc import Iterable, Sequence

from weir.api.answers import EventRow, PodRow, WorkloadDetail
from weir.cli.demo.frame import DemoFrame, PendingJob, ProjectUsage, RunningJob
from weir.cli.demo.jobs import PARTS, PROJECTS
from weir.cli.demo.observations import Observations

_TOLD = ("started", "stopping", "nominated", "ended", "failed", "lost")
"""Kinds of events worth a line here; the others are the steps in between."""
_SHOWN = ("running", "starting", "stopping")


def merged_events(events: Iterable[EventRow], began_s: float) -> list[tuple[float, str]]:
    """Return events with their time since the start; evictions with the same cause are merged."""
    merged: list[tuple[float, list[str], str]] = []
    for event in events:
        if event.kind not in _TOLD or event.workload is None:
            continue
        name, rest = event.workload, event.sentence.removeprefix(event.workload)
        at_s = event.at_s - began_s
        same = next((group for group in merged if group[2] == rest and event.kind == "stopping"), None)
        if same is not None and rest != event.sentence:
            same[1].append(name)
        elif any(group[1:] == ([name], rest) for group in merged[-1:]):
            continue
        elif rest != event.sentence:
            merged.append((at_s, [name], rest))
        else:
            merged.append((at_s, [], event.sentence))
    return [(at_s, _together(names, rest)) for at_s, names, rest in merged]


def _together(names: Sequence[str], rest: str) -> str:
    if len(names) <= 1:
        return "".join(names) + rest
    return ", ".join(names[:-1]) + f" and {names[-1]}" + rest.replace(" is ", " are ", 1)


def picture(
    seen: Observations, *, at_s: float, scene: str, command: str, sentences: Sequence[tuple[float, str]]
) -> DemoFrame:
    """Return the screen's content from the observations."""
    many = max((len(node.devices) for node in seen.nodes), default=0)
    devices: list[list[RunningJob]] = [[] for _ in range(many)]
    for name, detail in seen.details.items():
        for pod in () if seen.is_over(name) else detail.pod_rows:
            if pod.status in _SHOWN:
                for device in pod.devices:
                    devices[device].append(_running(name, detail, pod))
    allocated = {row.name: row.allocated.get("gpu", 0.0) for row in seen.projects}
    return DemoFrame(
        at_s=at_s,
        scene=scene,
        command=command,
        devices=devices,
        projects=[
            ProjectUsage(name, allocated.get(name, 0.0), quota) for name, (_, quota) in PROJECTS.items()
        ],
        waiting=_waiting(seen),
        sentences=sentences,
    )


def _running(name: str, detail: WorkloadDetail, pod: PodRow) -> RunningJob:
    part = PARTS[name]
    return RunningJob(
        name if detail.pods == 1 else f"{name}/{pod.name.rpartition('/')[2]}",
        part.project,
        pod.status,
        part=part.gpus,
        step=detail.step,
        steps=part.steps,
        loss=detail.reported.get("loss"),
    )


def _waiting(seen: Observations) -> list[PendingJob]:
    reasons: dict[str, list[str]] = {}
    for name, detail in seen.details.items():
        if detail.status == "pending" and detail.reason is not None:
            reasons.setdefault(detail.reason.sentence, []).append(name)
    return [PendingJob(names, reason) for reason, names in reasons.items()]
