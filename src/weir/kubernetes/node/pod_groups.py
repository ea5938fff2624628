"""Control groups of the pods of a node, by the names that the kubelet gives them.

With the driver `systemd` the group of all pods is `kubepods.slice`, or ends so below another root; with
`cgroupfs` it is `kubepods`. Below it come the groups of classes of pods, those of pods, and containers.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from weir.kubernetes.node.pod_processes import uid_in

_ALL, _ALL_SLICE = "kubepods", "kubepods.slice"
_ROOT_LEVELS = 3
"""Limit of levels above the group of all pods, since a kubelet may have a root of its own."""
_CLASS_LEVELS = 1
_DEVICE_MEMORY = "dmem.max"


class PodGroups:
    """Finds the groups of pods below the root of the hierarchy."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._of_all: list[Path] = []

    def by_pod(self, *, is_due: bool) -> dict[str, Path]:
        """Return the group of each pod, by its uid; if `is_due`, search the whole hierarchy for them."""
        if is_due or not self._of_all:
            self._of_all = list(_groups_of_all(self.root, _ROOT_LEVELS))
        return {uid: group for all_pods in self._of_all for uid, group in _of_pods(all_pods, _CLASS_LEVELS)}


def containers(pod: Path) -> list[Path]:
    """Return the existing groups of a pod's containers, with that of its sandbox."""
    return _below(pod)


def counts_device_memory(group: Path) -> bool:
    """Return True if the kernel counts memory of devices for a group, by its controller `dmem`."""
    return (group / _DEVICE_MEMORY).exists()


def _groups_of_all(group: Path, levels: int) -> Iterator[Path]:
    for child in _below(group):
        if child.name == _ALL or child.name.endswith(_ALL_SLICE):
            yield child
        elif levels:
            yield from _groups_of_all(child, levels - 1)


def _of_pods(group: Path, levels: int) -> Iterator[tuple[str, Path]]:
    for child in _below(group):
        uid = uid_in(child.name)
        if uid:
            yield uid, child
        elif levels:
            yield from _of_pods(child, levels - 1)


def _below(group: Path) -> list[Path]:
    """Return the groups below a group; none if it no longer exists."""
    try:
        with os.scandir(group) as entries:
            return sorted(group / entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
