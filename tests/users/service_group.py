"""The control group that systemd would give the service of a pool, on machines with version 2 alone."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

_ALL = Path("/sys/fs/cgroup")
_DELEGATED = "+cpu +memory +pids"


def make_service_group() -> Path | None:
    """Make a group with the controllers that a service has; None where version 1 or others rule."""
    if not (_ALL / "cgroup.controllers").exists():
        return None
    try:
        (_ALL / "cgroup.subtree_control").write_text(_DELEGATED)
        above = Path(tempfile.mkdtemp(prefix="weir-tests-", suffix=".slice", dir=_ALL))
    except OSError:  # a container has processes in its uppermost group
        return None
    above.chmod(0o755)
    (above / "cgroup.subtree_control").write_text(_DELEGATED)
    service = above / "weir.service"
    service.mkdir()
    return service


def remove_service_group(service: Path) -> None:
    """Remove the group, and those of the pool beside it."""
    for folder, _, _ in os.walk(service.parent, topdown=False):
        with suppress(OSError):  # a process that a test has left
            Path(folder).rmdir()
