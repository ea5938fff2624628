"""Signs of people in workloads: when keys were last pressed, and how many connections are open.

Code that connects a person to a workload fills this in. Entries of `weir exec` are followed by their
processes: one that lives is a connection, and the kernel stamps its terminal at each key. The stamp is of
the wall clock, so only its changes count.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock

from weir.local import pod_files
from weir.model.activity import Interaction

_TERMINAL_AT = 4
"""Position of the terminal's device number in /proc/PID/stat, from the state on."""
_PTS_MAJORS = range(136, 144)
ENTRIES_MOST = 64
"""Processes followed of one workload."""


@dataclass(slots=True)
class _Visitor:
    """A process that entered a pod."""

    pid: int
    ticks: int
    stamp: float | None = None


@dataclass(slots=True)
class _Seen:
    interaction: Interaction = field(default_factory=Interaction)
    entries: list[_Visitor] = field(default_factory=list)


class Interactions:
    """Last interaction with each workload, by its number. Any thread may call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: dict[int, _Seen] = {}

    def note(self, uid: int, at_s: float, *, connections: int | None = None) -> None:
        """Note a sign of a person in a workload, and the connections that are open now, if they are known."""
        with self._lock:
            seen = self._seen.setdefault(uid, _Seen())
            last_s = max(at_s, seen.interaction.last_s or at_s)
            open_ = seen.interaction.open if connections is None else connections
            seen.interaction = Interaction(last_s, open_)

    def entered(self, uid: int, pid: int, at_s: float) -> None:
        """Follow a process that has entered a pod."""
        self.note(uid, at_s)
        ticks = pod_files.started_ticks(pid)
        if ticks is not None:
            with self._lock:
                entries = self._seen[uid].entries
                entries.append(_Visitor(pid, ticks, _stamp(pid)))
                del entries[:-ENTRIES_MOST]

    def of(self, uid: int, at_s: float) -> Interaction:
        """Return the last interaction with a workload, as seen at this time."""
        with self._lock:
            seen = self._seen.get(uid)
            if seen is None:
                return Interaction()
            seen.entries = [each for each in seen.entries if pod_files.started_ticks(each.pid) == each.ticks]
            for each in seen.entries:
                stamp = _stamp(each.pid)
                if stamp != each.stamp:
                    each.stamp = stamp
                    seen.interaction = replace(seen.interaction, last_s=at_s)
            return replace(seen.interaction, open=seen.interaction.open + len(seen.entries))

    def keep(self, uids: Iterable[int]) -> None:
        """Forget all other workloads."""
        kept = set(uids)
        with self._lock:
            self._seen = {uid: seen for uid, seen in self._seen.items() if uid in kept}


def _stamp(pid: int) -> float | None:
    """Return when the terminal of a process was last read from; None without one."""
    fields = pod_files.stat_of(pid)
    number = int(fields[_TERMINAL_AT]) if fields else 0
    major, minor = os.major(number), os.minor(number)
    if major not in _PTS_MAJORS:
        return None
    with suppress(OSError):
        return os.stat(f"/dev/pts/{(major - _PTS_MAJORS.start) * 256 + minor}").st_atime
    return None
