"""A container as the place of a command, and the error of one that didn't start there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerAddress:
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


class ExecNotStarted(Exception):
    """The command didn't start in the container; the text says why, such as a missing program."""
