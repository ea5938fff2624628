"""Pods of the processes of a node, by their control groups.

The kubelet names the group of a pod after its uid. A container may make groups below its own and name them as
it likes, so the outermost name counts.
"""

import re
from pathlib import Path

PROC = Path("/proc")
NOT_OF_A_POD = ""
_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})", re.ASCII)
_TEXT_MAX = 1 << 16


def pod_of_process(process: int, proc: Path = PROC) -> str | None:
    """Return the uid of a process's pod; `NOT_OF_A_POD` without one; None for an unknown process."""
    try:
        with (proc / str(process) / "cgroup").open(encoding="utf-8", errors="replace") as file:
            text = file.read(_TEXT_MAX)
    except OSError:
        return None
    for line in text.splitlines():
        if uid := uid_in(line):
            return uid
    return NOT_OF_A_POD


def uid_in(text: str) -> str:
    """Return the first uid of a pod in the name or path of a control group; empty without one."""
    match = _UID.search(text)
    return "" if match is None else match[1].replace("_", "-")
