"""Control groups of the pods of a node, by the names that the kubelet gives them.

With the driver `systemd` the group of all pods is `kubepods.slice`, or ends so below another root; with
`cgroupfs` it is `kubepods`. Below it come the groups of two classes of pods, those of pods, and containers.
"""

from collections.abc import Iterator
from pathlib import Path

from weir.kubernetes.node.pod_processes import uid_in

ROOT = Path("/sys/fs/cgroup")
_ALL, _ALL_SLICE = "kubepods", "kubepods.slice"
_ROOT_LEVELS = 3
"""Levels above the group of all pods: a kubelet may have a root of its own."""
_CLASS_LEVELS = 1


class PodGroups:
    """Finds the groups of pods below the root of the hierarchy."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    def by_pod(self) -> dict[str, Path]:
        """Return the group of each pod, by its uid."""
        found: dict[str, Path] = {}
        for pods in _groups_of_all(self._root, _ROOT_LEVELS):
            found.update(_groups_of_pods(pods, _CLASS_LEVELS))
        return found


def containers(pod: Path) -> list[Path]:
    """Return the groups of a pod's containers that exist now, with that of its sandbox."""
    return list(_below(pod))


def _groups_of_all(at: Path, levels: int) -> Iterator[Path]:
    for each in _below(at):
        if each.name == _ALL or each.name.endswith(_ALL_SLICE):
            yield each
        elif levels:
            yield from _groups_of_all(each, levels - 1)


def _groups_of_pods(at: Path, levels: int) -> Iterator[tuple[str, Path]]:
    for each in _below(at):
        uid = uid_in(each.name)
        if uid:
            yield uid, each
        elif levels:
            yield from _groups_of_pods(each, levels - 1)


def _below(group: Path) -> Iterator[Path]:
    """Yield the groups below one; none if it is gone."""
    try:
        found = sorted(each for each in group.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError:
        return
    yield from found
