"""Answer about the entry of a process into a running pod."""

from weir.api.workload_list import Answer


class EnteredProcess(Answer):
    """The first process of a pod: its environment and directory are in /proc, for its own user.

    `leader_ticks`: when it was started, in kernel ticks since the machine was; it identifies the process.
    """

    leader: int
    leader_ticks: int | None
