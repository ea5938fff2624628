"""The screen of the tour as lines: running jobs, usage of projects, pending jobs, and recent events.

Pure functions. Every part keeps its position, so that the screen doesn't jump.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.cli.output.formatting import counted, number
from weir.cli.output.terminal import Screen, Tone, cells, plain, shortened, wrapped

_COLOURS = {"vision": "36", "speech": "35", "search": "33"}
_WIDTH_UNKNOWN, _WIDTH_MAX = 110, 132
_NAME_WIDTH = 9
_TAIL_WIDTH = 21
"""Width of the text behind the bar: steps, and the loss or the state of a job that isn't learning."""
_WAITING_LINES, _SAID_LINES = 3, 6
_HALF = "½"


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A process of a job on a device."""

    name: str
    project: str
    status: str
    part: float = 1.0
    step: int | None = None
    steps: int = 0
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class ProjectUsage:
    """Usage of a project."""

    name: str
    gpus: float
    quota: float


@dataclass(frozen=True, slots=True)
class PendingJob:
    """Jobs that are pending for the same reason."""

    names: Sequence[str]
    sentence: str


@dataclass(frozen=True, slots=True)
class DemoFrame:
    """Everything on the screen."""

    at_s: float
    scene: str
    command: str
    devices: Sequence[Sequence[RunningJob]]
    projects: Sequence[ProjectUsage]
    waiting: Sequence[PendingJob]
    sentences: Sequence[tuple[float, str]]  # events of this scene with their times, oldest first


def lines(picture: DemoFrame, display: Screen) -> list[str]:
    """Return the lines of the screen."""
    width = min(_WIDTH_MAX, display.width or _WIDTH_UNKNOWN)
    return [
        _head(picture, display, width),
        "",
        *(_device(index, on, display, width) for index, on in enumerate(picture.devices)),
        "",
        *_waiting(picture.waiting, display, width),
        "",
        display.paint(shortened(picture.scene, width, middle=False), "strong"),
        display.paint(
            shortened(f"$ {picture.command}" if picture.command else "", width, middle=False), "quiet"
        ),
        *_recent(picture.sentences, display, width),
    ]


def _head(picture: DemoFrame, display: Screen, width: int) -> str:
    """Return the usage of each project, and the time."""
    parts = [
        (usage, f"{usage.name} {number(usage.gpus)} (quota {number(usage.quota)})")
        for usage in picture.projects
    ]
    clock = f"{int(picture.at_s) // 60}:{int(picture.at_s) % 60:02d}"
    title = "GPUs  "
    used = len(title) + sum(cells(text) for _, text in parts) + 3 * max(0, len(parts) - 1)
    usages = "   ".join(_coloured(text, usage.name, display) for usage, text in parts)
    gap = " " * max(1, width - used - len(clock))
    return display.paint(title, "quiet") + usages + gap + display.paint(clock, "quiet")


def _device(index: int, on: Sequence[RunningJob], display: Screen, width: int) -> str:
    label = display.paint(f"{index:>2} ", "quiet")
    if not on:
        return label + display.paint("free", "quiet")
    job_width = (width - 3 - 3 * (len(on) - 1)) // len(on)
    return label + "   ".join(_running(job, display, job_width) for job in on)


def _running(job: RunningJob, display: Screen, width: int) -> str:
    name = f"{job.name} {_HALF}" if job.part == 0.5 else job.name
    tail_width = _TAIL_WIDTH if job.part == 1.0 else 9
    tail = _tail(job)[:tail_width].ljust(tail_width)
    bar_width = max(0, width - _NAME_WIDTH - 2 - tail_width)
    label = _coloured(shortened(name, _NAME_WIDTH, middle=True).ljust(_NAME_WIDTH), job.project, display)
    return f"{label} {_bar(job, bar_width, display)} {tail}"


def _tail(job: RunningJob) -> str:
    if job.status == "starting":
        return "starts"
    if not job.steps:
        return "open"
    steps = f"{job.step or 0:>3}/{job.steps}"
    if job.status == "stopping":
        return f"{steps}  saves"
    return steps if job.loss is None else f"{steps}  loss {job.loss:.3f}"


def _bar(job: RunningJob, width: int, display: Screen) -> str:
    """Return a job's progress; a session has none."""
    full = round(width * min(1.0, (job.step or 0) / job.steps)) if job.steps else width
    filled = "━" * full if job.steps else "┄" * width
    return _coloured(filled, job.project, display) + display.paint("─" * (width - full), "quiet")


def _waiting(waiting: Sequence[PendingJob], display: Screen, width: int) -> list[str]:
    shown = [_waiting_line(job, width) for job in waiting[:_WAITING_LINES]]
    if not shown:
        shown = ["No job is pending."]
    return [display.paint(line, "busy" if waiting else "quiet") for line in shown] + [""] * (
        _WAITING_LINES - len(shown)
    )


def _waiting_line(job: PendingJob, width: int) -> str:
    names = listed(job.names)
    wait = "waits" if len(job.names) == 1 else "wait"
    return shortened(f"{names} {wait}: {plain(job.sentence)}", width, middle=False)


def listed(names: Sequence[str]) -> str:
    """Return names in a few words: `sweep-1, sweep-2 and 3 more`."""
    if len(names) <= 2:
        return " and ".join(names)
    return f"{names[0]}, {names[1]} and {counted(len(names) - 2, 'other')}"


def _recent(sentences: Sequence[tuple[float, str]], display: Screen, width: int) -> list[str]:
    """Return the newest events; the last one is highlighted."""
    shown: list[str] = []
    for index, (at_s, sentence) in enumerate(reversed(sentences)):
        text = wrapped(plain(sentence), width - 8).split("\n")
        if len(shown) + len(text) > _SAID_LINES:
            break
        heads = [f"{at_s:5.1f}s  ", *["        "] * (len(text) - 1)]
        tone: Tone = "plain" if index == 0 else "quiet"
        shown = [
            display.paint(head, "quiet") + display.paint(line, tone)
            for head, line in zip(heads, text, strict=True)
        ] + shown
    return shown + [""] * (_SAID_LINES - len(shown))


def _coloured(text: str, project: str, display: Screen) -> str:
    code = _COLOURS.get(project)
    return f"\x1b[{code}m{text}\x1b[0m" if display.colour and code and text else text
