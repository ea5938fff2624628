"""Formats of traces by name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from weir.model.scenario import Scenario
from weir.simulation.job_trace import JobTrace
from weir.simulation.traces import own, public

OWN = "weir"
FORMATS: Mapping[str, Callable[[Path, Scenario], list[JobTrace]]] = {
    OWN: own.read,
    "openb": public.read_openb,
    "itp": public.read_itp,
    "philly": public.read_philly,
}


def read_trace(path: Path, scenario: Scenario, format_: str = OWN) -> list[JobTrace]:
    """Read a trace: its workloads and the future of each.

    Raises:
        InvalidFile: with the mistakes of the file.
    """
    return FORMATS[format_](path, scenario)
