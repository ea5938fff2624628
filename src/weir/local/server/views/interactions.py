"""Signs of people in workloads: when keys were last pressed, and how many connections are open.

Code that connects a person to a workload may note it here. Processes that entered a pod, by `weir exec`,
`weir shell` and SSH, are connections while they live. The kernel stamps a terminal at each key. The stamp is
of the wall clock, so only its changes count.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock

from weir.local.records import pod_files
from weir.model.activity import Interaction

_SESSION_AT, _TERMINAL_AT = 3, 4
"""Positions in /proc/PID/stat, from the state on."""
_PTS_MAJORS = range(136, 144)
_EIGHT_BITS = 256
ENTERED_MAX = 256
"""Entered processes of one workload that are looked at."""


@dataclass(slots=True)
class _Seen:
    interaction: Interaction = field(default_factory=Interaction)
    stamps: Mapping[int, float] = field(default_factory=dict)  # time stamps by terminal


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

    def look(self, uid: int, entered: Sequence[int], at_s: float) -> Interaction:
        """Return the last interaction with a workload, counting its entered processes at this time."""
        sessions, stamps = _stamps(entered[:ENTERED_MAX])
        with self._lock:
            seen = self._seen.setdefault(uid, _Seen())
            if stamps != seen.stamps:
                seen.stamps = stamps
                seen.interaction = replace(seen.interaction, last_s=at_s)
            return replace(seen.interaction, open=seen.interaction.open + sessions)

    def keep(self, uids: Iterable[int]) -> None:
        """Forget the interactions with all workloads except these."""
        kept = set(uids)
        with self._lock:
            self._seen = {uid: seen for uid, seen in self._seen.items() if uid in kept}


def _stamps(pids: Sequence[int]) -> tuple[int, dict[int, float]]:
    """Return the number of sessions of processes, and when each of their terminals was last read from."""
    stats = [fields for pid in pids if (fields := pod_files.stat_of(pid))]
    stamps = {}
    for number in {int(fields[_TERMINAL_AT]) for fields in stats}:
        major, minor = os.major(number), os.minor(number)
        if major in _PTS_MAJORS:
            with suppress(OSError):
                place = (major - _PTS_MAJORS.start) * _EIGHT_BITS + minor
                stamps[number] = os.stat(f"/dev/pts/{place}").st_atime
    return len({fields[_SESSION_AT] for fields in stats}), stamps
