"""Processes of pods, as the server may act on them: itself, or through the node process.

In a personal pool every pod runs as the server's own user. Otherwise only the node process may signal them,
and the control groups know them all: no user can leave one.
"""

from collections.abc import Sequence
from typing import Protocol

from weir.local.cgroups import Words
from weir.local.node.orders import JoinOrder, KillOrder, SignalOrder
from weir.local.processes.node_client import NodeClient


class ProcessesLeft(OSError):
    """Processes are left that could not be ended."""


class PodProcesses(Protocol):
    """The processes of pods."""

    def signal_supervisor(self, process: int, number: int) -> None:
        """Signal the supervisor of a pidfd, if it is still running.

        Raises:
            OSError: the signal couldn't be sent.
        """
        ...

    def kill_all(self, directory: str, of_pod: Sequence[Words]) -> bool:
        """Kill every process of a start but its supervisor; return True if there were any.

        Raises:
            OSError: some don't end.
        """
        ...

    def enter(self, directory: str, process: int) -> str:
        """Put the process of a pidfd into the control groups of a start; return why not, if that fails.

        Raises:
            OSError: the node process is gone.
        """
        ...

    def remove_groups(self, directory: str) -> None:
        """Remove the control groups of a start that is over, if its supervisor couldn't.

        Raises:
            OSError: processes are left in them.
        """
        ...


class UsersProcesses:
    """Signals and enters the processes of other users, by way of the node process."""

    def __init__(self, node: NodeClient) -> None:
        self._node = node

    def signal_supervisor(self, process: int, number: int) -> None:
        """Signal the supervisor of a pidfd."""
        self._node.call(SignalOrder(number), process)

    def kill_all(self, directory: str, of_pod: Sequence[Words]) -> bool:  # noqa: ARG002 - the node knows them
        """Kill every process of a start, and remove its groups."""
        answer = self._node.call(KillOrder(_name_of(directory)))
        if answer.left:
            raise ProcessesLeft(f"{answer.left} processes of {directory} don't end")
        return answer.killed

    def enter(self, directory: str, process: int) -> str:
        """Put a process of the start's own user into its groups; return why not, if it can't be."""
        return self._node.call(JoinOrder(_name_of(directory)), process).refused

    def remove_groups(self, directory: str) -> None:
        """Remove the control groups of a start: its user has no right to."""
        self.kill_all(directory, ())


def _name_of(directory: str) -> str:
    """Return the name of the start with these records: UID/START-GROUP-INDEX."""
    return "/".join(directory.rsplit("/", 2)[1:])
