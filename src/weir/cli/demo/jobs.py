"""Departments, projects and jobs of the tour as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GPUS = 8
DEPARTMENTS: Mapping[str, int] = {"research": 6, "product": 2}
PROJECTS: Mapping[str, tuple[str, int]] = {
    "vision": ("research", 2),
    "speech": ("research", 4),
    "search": ("product", 2),
}
"""Department and quota of GPUs of each project."""

SWEEP_STEPS, EVAL_STEPS, GANG_STEPS = 160, 52, 64
STEP_S = 0.2
"""A step needs a few milliseconds; it takes so long that eight jobs fit on two cores and can be watched."""
OFTEN, SELDOM = 4, 10_000


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A job of the tour: its submission and its number of steps."""

    name: str
    project: str
    script: str
    words: tuple[str, ...] = ()
    steps: int = 0
    gpus: float = 1
    extra_fields: Mapping[str, Any] = field(default_factory=dict)


def _sweep(number: int) -> DemoJob:
    """Return a job of the sweep: four save every 4 steps, two every 20, two only on notice to stop."""
    every = OFTEN if number <= 4 else 20 if number <= 6 else SELDOM
    words = ("--seed", str(number), "--steps", str(SWEEP_STEPS), "--save-every", str(every))
    return DemoJob(f"sweep-{number}", "vision", "digits.py", words, SWEEP_STEPS)


def _eval(number: int) -> DemoJob:
    words = ("--seed", str(20 + number), "--steps", str(EVAL_STEPS))
    return DemoJob(f"eval-{number}", "search", "digits.py", words, EVAL_STEPS, 0.5)


SWEEP = tuple(_sweep(number) for number in range(1, GPUS + 1))
GANG = DemoJob("big-run", "speech", "digits_gang.py", (), GANG_STEPS, 1, {"workers": 4})
EVALS = (_eval(1), _eval(2))
NOTEBOOK = DemoJob("notebook", "search", "", (), 0, 1, {"type": "build"})
PARTS: Mapping[str, DemoJob] = {part.name: part for part in (*SWEEP, GANG, *EVALS, NOTEBOOK)}
