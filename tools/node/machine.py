"""Checks that this machine can run a real node.

A node needs Linux, root, the right to make namespaces, and writable control groups. `WEIR_REAL_NODE=skip`
leaves the tests on a node out in any case. With `WEIR_REAL_NODE=required` they fail on a machine that can't
run a node.
"""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from tools.node.guard import NAMESPACES

_VARIABLE = "WEIR_REAL_NODE"
_CGROUPS = Path("/sys/fs/cgroup")
_NEEDED = {"unshare": "util-linux", "ip": "iproute2"}


def must_run() -> bool:
    """Return True if tests that can't run are to fail."""
    return os.environ.get(_VARIABLE) == "required"


def is_skipped() -> bool:
    """Return True if the tests are left out on purpose, alone or with all others against Kubernetes."""
    return "skip" in {os.environ.get(_VARIABLE), os.environ.get("WEIR_KUBERNETES")}


def obstacle() -> str:
    """Return a sentence that says why no node can run here, or nothing if one can."""
    if platform.system() != "Linux":
        return "A kubelet needs Linux."
    if os.geteuid() != 0:
        return "A kubelet needs root; run the tests as root, in a virtual machine if possible."
    for program, package in _NEEDED.items():
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"There is no {program}; install {package}."
    tried = subprocess.run(
        [*NAMESPACES, "mount", "-t", "tmpfs", "node", "/var/lib"], check=False, capture_output=True, text=True
    )
    if tried.returncode != 0:
        return f"This machine permits no namespaces: {tried.stderr.strip()}."
    hierarchies = [one for one in (_CGROUPS, _CGROUPS / "memory") if (one / "cgroup.procs").exists()]
    if not any(os.access(one, os.W_OK) and _writable(one) for one in hierarchies):
        return "The control groups of this machine are read-only."
    return ""


def _writable(hierarchy: Path) -> bool:
    probe = hierarchy / f"weir-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True
