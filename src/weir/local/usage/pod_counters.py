"""Counters of a pod besides its devices: bytes of disks and of the network, and processes that are blocked.

Disks: version 2 control groups count what reached a block device, for every user. `/proc/PID/io` also counts
network file systems and the page cache, but only the owner of a process and root may read it. The larger one
holds. Network: a control group counts none. The counters of interfaces belong to a network namespace. So they
are a pod's own only if it has a namespace of its own, as containers do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.local.cgroups import Words, text_of

_IO_STAT = ("rbytes=", "wbytes=")
_CALLS, _BLOCKS = ("rchar:", "wchar:"), ("read_bytes:", "write_bytes:")
_RECEIVED_AT, _SENT_AT = 0, 8
_PIDS_MAX = 256
"""Processes of a pod whose counters are read; more of them are rarely of different use."""


@dataclass(frozen=True, slots=True)
class PodCounters:
    """Bytes since the pod's processes began; None if they can't be read."""

    group_disk: int | None
    process_disk: int | None
    network: int | None


@dataclass(frozen=True, slots=True)
class PodRates:
    """Bytes per second between two readings; None if they are unknown."""

    disk: float | None = None
    network: float | None = None


def read_counters(groups: Sequence[Words], pids: Sequence[int], host_interfaces: str) -> PodCounters:
    """Read the counters of a pod. `host_interfaces` is the text of the machine's own interfaces."""
    return PodCounters(
        _group_disk(groups), _process_disk(pids[:_PIDS_MAX]), _network(pids[:1], host_interfaces)
    )


def rates(before: PodCounters, now: PodCounters, passed_s: float) -> PodRates:
    """Return the rates between two readings. A process that ended takes its count along: never below 0."""
    if passed_s <= 0:
        return PodRates()
    disks = [
        max(0, new - old) / passed_s
        for old, new in (
            (before.group_disk, now.group_disk),
            (before.process_disk, now.process_disk),
        )
        if old is not None and new is not None
    ]
    network = None
    if before.network is not None and now.network is not None:
        network = max(0, now.network - before.network) / passed_s
    return PodRates(max(disks, default=None), network)


def interfaces() -> str:
    """Return the counters of the machine's own network interfaces, as text."""
    return text_of("/proc/self/net/dev")


def _group_disk(groups: Sequence[Words]) -> int | None:
    """Return the bytes that version 2 groups of a pod moved; None without the controller."""
    texts = [text for group in groups if (text := text_of(f"{group[0]}/io.stat"))]
    if not texts:
        return 0 if any(_counts_io(group[0]) for group in groups) else None
    words = (word for text in texts for word in text.split())
    return sum(_number(word.partition("=")[2]) for word in words if word.startswith(_IO_STAT))


def _counts_io(path: str) -> bool:
    """Return True if a group has the controller: its file is empty until something moves."""
    return "io" in text_of(f"{path}/cgroup.controllers").split()


def _process_disk(pids: Iterable[int]) -> int | None:
    """Return the bytes that processes read and wrote; None if none of them may be read."""
    sums = [total for pid in pids if (total := _process_bytes(text_of(f"/proc/{pid}/io"))) is not None]
    return sum(sums) if sums else None


def _process_bytes(text: str) -> int | None:
    """Return the bytes that system calls moved, or those that block devices moved, whichever are more.

    The answer is None if the text is empty.
    """
    if not text:
        return None
    values = {line.partition(" ")[0]: _number(line.partition(" ")[2]) for line in text.splitlines()}
    return max(sum(values.get(key, 0) for key in keys) for keys in (_CALLS, _BLOCKS))


def _network(pids: Sequence[int], host_interfaces: str) -> int | None:
    """Return the bytes of the interfaces of a pod's own network namespace; None if it has none."""
    text = text_of(f"/proc/{pids[0]}/net/dev") if pids else ""
    own = _interfaces(text)
    if not own or own.keys() == _interfaces(host_interfaces).keys():
        return None
    return sum(own.values())


def _interfaces(text: str) -> dict[str, int]:
    """Return the bytes received and sent of each interface."""
    traffic = {}
    for line in text.splitlines():
        name, parted, numbers = line.partition(":")
        fields = numbers.split()
        if parted and len(fields) > _SENT_AT:
            traffic[name.strip()] = _number(fields[_RECEIVED_AT]) + _number(fields[_SENT_AT])
    return traffic


def _number(text: str) -> int:
    text = text.strip()
    return int(text) if text.isdigit() else 0
