"""Headroom for sessions, learned from the hours at which they begin. Pure functions.

The number of devices that sessions requested at nearly the same time is taken from the same hour and weekday
of past weeks. These devices are kept free of work over quota before that hour, and none at other times. One
unusual week among others has no effect.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from weir.model.policy import Policy

WEEK_S = 7 * 86400.0
WEEKS_MAX = 6
WEEKS_MIN = 2
"""Weeks of history from which on a headroom is learned."""
QUANTILE = 0.8
"""Part of the past weeks whose demand the headroom covers."""
AHEAD_S = 3600.0
"""Time before an hour from which its devices are kept free. Borrowers end gradually, so headroom grows
slowly."""
TOGETHER_S = 600.0
"""Span of time in which sessions count as beginning together: in it no borrower is expected to end."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """A session that was submitted, with the devices that it asks for."""

    at_s: float
    devices: float


@dataclass(frozen=True, slots=True)
class LearnedHeadroom:
    """Headroom that is learned for now.

    Attributes:
        devices: whole devices to keep free.
        demands: devices that sessions asked for together in this hour of past weeks, the last week first.
        limit: the most devices that may be kept free.
    """

    devices: int
    demands: tuple[int, ...]
    limit: int

    @property
    def sentence(self) -> str:
        """Return the reason for the number, in a sentence."""
        if len(self.demands) < WEEKS_MIN:
            return f"Headroom for sessions is learned after {WEEKS_MIN} weeks of history."
        weeks = ", ".join(map(str, self.demands))
        text = (
            f"In this hour of the past {len(self.demands)} weeks, sessions together requested {weeks} GPUs."
        )
        kept = f"{self.devices} GPU{'' if self.devices == 1 else 's'} stay free of work over quota for them"
        return f"{text} {kept}{', the most allowed' if self.devices == self.limit else ''}."


def learned_headroom(
    starts: Sequence[SessionStart],
    *,
    now_s: float,
    known_since_s: float,
    limit: int,
    offsets_s: Sequence[float] = (0.0,) * WEEKS_MAX,
) -> LearnedHeadroom:
    """Return the headroom for the next hour.

    `starts` are in the order of their times. All times belong to one timeline that never jumps;
    `known_since_s` is the beginning of its history. `offsets_s[k]` corrects for summer time: it is how much
    later, on that timeline, this hour of the day was k + 1 weeks ago.
    """
    times_s = [start.at_s for start in starts]
    demands = []
    for week in range(1, WEEKS_MAX + 1):
        from_s = now_s - week * WEEK_S + offsets_s[week - 1]
        if from_s < known_since_s:
            break
        first, last = bisect_left(times_s, from_s), bisect_left(times_s, from_s + AHEAD_S)
        demands.append(_together(starts[first:last]))
    if len(demands) < WEEKS_MIN:
        return LearnedHeadroom(0, tuple(demands), limit)
    enough = sorted(demands)[ceil(QUANTILE * len(demands)) - 1]
    return LearnedHeadroom(min(enough, limit), tuple(demands), limit)


def _together(starts: Sequence[SessionStart]) -> int:
    """Return the most devices that sessions requested within TOGETHER_S."""
    most, held, first = 0.0, 0.0, 0
    for start in starts:
        held += start.devices
        while starts[first].at_s <= start.at_s - TOGETHER_S:
            held -= starts[first].devices
            first += 1
        most = max(most, held)
    return ceil(most - 1e-6)


def with_headroom(policy: Policy, devices: int, total: int) -> Policy:
    """Return the policy that keeps this many devices free, unless its own headroom is larger."""
    # Half a device more, because it is rounded down to whole devices
    part = (devices + 0.5) / max(1, total) if devices else 0.0
    fraction = min(1.0, max(policy.reserve_fraction, part))
    return policy.model_copy(update={"reserve_fraction": fraction})


def summer_times_s(now_wall_s: float) -> list[float]:
    """Return for each past week how much later this hour of the day was, because of summer time."""
    now_s = _offset_s(now_wall_s)
    return [now_s - _offset_s(now_wall_s - week * WEEK_S) for week in range(1, WEEKS_MAX + 1)]


def _offset_s(wall_s: float) -> float:
    offset = datetime.fromtimestamp(wall_s).astimezone().utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
