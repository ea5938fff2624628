"""Exit codes of commands that wait for a workload."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from weir.api.answers import WorkloadRow

FAILED: Final = 1
STOPPED: Final = 143
"""A person or a limit stopped the workload for good. The number is that of a process ended by SIGTERM."""
CODE_MAX: Final = 255


def exit_code_of(found: "WorkloadRow") -> int:
    """Return the exit code of a workload that is over, as a shell has it."""
    if found.status == "succeeded":
        return 0
    if found.status == "stopped":
        return STOPPED
    code = found.exit_code
    return code if code is not None and 0 < code <= CODE_MAX else FAILED
