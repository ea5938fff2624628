"""Use of a pod's control groups, which its supervisor reads with the rights of the pod's user.

Standard library only.
"""

from collections.abc import Sequence

from weir.local.cgroups import Cgroup, text_of

_UNLIMITED = 1 << 62
"""Version 1 shows a number of about this size where no limit is set."""


class GroupUsage:
    """Memory and processes that the groups of a pod used, and refusals of the kernel."""

    def __init__(self, groups: Sequence[Cgroup]) -> None:
        self._groups = groups
        self.memory_limit = 0  # bytes; 0: no limit
        self.memory_peak = 0  # bytes; 0: not yet read
        self.ran_out = False  # True: the kernel killed a process for lack of memory
        self.pids_refused = False  # True: the kernel refused another process

    def read(self) -> None:
        """Read the counters of the kernel."""
        for group in self._groups:
            self.ran_out |= _counted(group.path, "oom_kill", "memory.events", "memory.oom_control")
            self.pids_refused |= _counted(group.path, "max", "pids.events")
            self.memory_peak = (
                _number(group.path, "memory.peak", "memory.max_usage_in_bytes") or self.memory_peak
            )
            self.memory_limit = (
                _number(group.path, "memory.max", "memory.limit_in_bytes") or self.memory_limit
            )


def _number(group: str, *files: str) -> int:
    """Return the number in the first file of a group that has one; 0 if none has, or no limit is set."""
    texts = (text_of(f"{group}/{name}").strip() for name in files)
    return next((int(text) for text in texts if text.isdigit() and int(text) < _UNLIMITED), 0)


def _counted(group: str, key: str, *files: str) -> bool:
    """Return True if a file of a group counts an event that isn't 0."""
    lines = (line for name in files for line in text_of(f"{group}/{name}").splitlines())
    return any(line.split(" ")[0] == key and line.split(" ")[-1] != "0" for line in lines)
