"""The guard of a node: it ends the node with its test, however that ends, and removes its control groups.

    python -m tools.node.guard DIRECTORY

The kernel ends the processes, mounts and network namespaces of a node with its process 1. Control groups
stay, so the guard removes them. If the guard was itself killed, the next one removes its groups.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.node.settings import NodeSettings

PREFIX = "weir-node-"
NAMESPACES = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc")
_CGROUPS = Path("/sys/fs/cgroup")
_STOP_S = 10.0


def main() -> int:
    """Run from the command line, with a pipe from the test as standard input."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    directory = Path(sys.argv[1])
    cgroup = NodeSettings.read(directory).cgroup
    _remove_abandoned()
    make_cgroups(cgroup)
    with (directory / "inside.log").open("ab") as log:
        node = subprocess.Popen(
            [*NAMESPACES, sys.executable, "-m", "tools.node.inside", str(directory)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    assert node.stdin is not None
    for line in sys.stdin.buffer:
        with contextlib.suppress(BrokenPipeError):
            node.stdin.write(line)
            node.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        node.stdin.close()
    try:
        node.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()
    remove_cgroups(cgroup)
    shutil.rmtree(directory, ignore_errors=True)
    return 0


def make_cgroups(name: str) -> None:
    """Make this group in every hierarchy: a kubelet makes those of its pods within it."""
    version_2 = (_CGROUPS / "cgroup.controllers").exists()
    for hierarchy in [_CGROUPS] if version_2 else _CGROUPS.iterdir():
        if (hierarchy / "cgroup.procs").exists():
            (hierarchy / name).mkdir()


def remove_cgroups(name: str) -> None:
    """Remove this group from every hierarchy, with all groups below it.

    The kernel lets go of a group a moment after its last process has ended.
    """
    end = time.monotonic() + _STOP_S
    while groups := list(_groups(name)):
        for group in groups:
            _remove(group)
        if time.monotonic() > end:
            return
        time.sleep(0.02)


def left_behind() -> set[str]:
    """Return the names of all nodes' groups that exist."""
    return {group.name for group in _groups(f"{PREFIX}*")}


def _groups(pattern: str) -> Iterator[Path]:
    """Yield the matching groups: directly under the mount (version 2) or under a hierarchy (version 1)."""
    yield from _CGROUPS.glob(pattern)
    yield from _CGROUPS.glob(f"*/{pattern}")


def _remove(group: Path) -> None:
    below = sorted((one for one in group.rglob("*") if one.is_dir()), key=lambda one: -len(one.parts))
    for one in [*below, group]:
        with contextlib.suppress(OSError):
            one.rmdir()


def _remove_abandoned() -> None:
    for name in left_behind():
        owner = name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            for group in _groups(name):
                _remove(group)


if __name__ == "__main__":
    sys.exit(main())
