"""Which commands there are. A new one is a line here; its module is imported when it is asked for."""

from typing import NamedTuple


class Command(NamedTuple):
    """A command: its word, `module:attribute` of a function or a cyclopts app, and what it does."""

    name: str
    target: str
    does: str


COMMANDS = (
    Command(
        "scenario", "weir.cli.scenario:app", "Play scenario files, or hold them against what they expect."
    ),
    Command(
        "simulate", "weir.cli.simulate:simulate", "Replay a trace of jobs on a cluster, and compare policies."
    ),
)
