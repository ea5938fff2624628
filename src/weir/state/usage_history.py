"""Usage history: device seconds of each project by the hour, for fair shares with memory."""

from collections.abc import Sequence

HOUR_S = 3600.0


class UsageHistory:
    """Device use by project and hour.

    Use is counted from one change of a project's usage to the next.
    """

    def __init__(self) -> None:
        self._milli: dict[str, int] = {}
        self._since_s: dict[str, float] = {}
        self._by_hour: dict[int, dict[str, float]] = {}
        self.first_s: float | None = None

    def holds(self, project: str, milli: int, at_s: float) -> None:
        """Set the thousandths of devices that a project holds from now on."""
        self.first_s = at_s if self.first_s is None else min(self.first_s, at_s)
        since_s = self._since_s.get(project, at_s)
        if since_s < at_s:
            before_milli = self._milli.get(project, 0)
            for hour, seconds in self._hours(since_s, at_s):
                used = self._by_hour.setdefault(hour, {})
                used[project] = used.get(project, 0.0) + seconds * before_milli
            since_s = at_s
        self._milli[project] = milli
        self._since_s[project] = since_s

    def branch(self) -> "UsageHistory":
        """Return a copy that continues independently."""
        branch = UsageHistory()
        branch._milli, branch._since_s = self._milli.copy(), self._since_s.copy()
        branch._by_hour = {hour: used.copy() for hour, used in self._by_hour.items()}
        branch.first_s = self.first_s
        return branch

    @staticmethod
    def _hours(from_s: float, to_s: float) -> list[tuple[int, float]]:
        hours = []
        while from_s < to_s:
            hour = int(from_s // HOUR_S)
            end_s = min(to_s, (hour + 1) * HOUR_S)
            hours.append((hour, end_s - from_s))
            from_s = end_s
        return hours

    def decayed(
        self, projects: Sequence[str], now_s: float, half_life_s: float, window_s: float
    ) -> list[float]:
        """Return the mean thousandths of each project over the window; old hours count less."""
        first_s = now_s if self.first_s is None else max(self.first_s, now_s - window_s)
        used = dict.fromkeys(projects, 0.0)
        weighed = 0.0
        for hour, seconds in self._hours(first_s, now_s):
            weight = 0.5 ** ((now_s - hour * HOUR_S) / half_life_s) if half_life_s else 1.0
            weighed += weight * seconds
            for project, milli_s in self._by_hour.get(hour, {}).items():
                if project in used:
                    used[project] += weight * milli_s
            for project in projects:
                since_s = max(self._since_s.get(project, now_s), hour * HOUR_S, first_s)
                held_s = min(now_s, (hour + 1) * HOUR_S) - since_s
                if held_s > 0:
                    used[project] += weight * held_s * self._milli.get(project, 0)
        return [used[project] / weighed if weighed else 0.0 for project in projects]
