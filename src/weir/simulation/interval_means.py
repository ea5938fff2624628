"""Levels over time, as means of equal intervals, for charts of months at little cost."""

INTERVALS = 480
"""Intervals the window is divided into."""


class IntervalMeans:
    """Means of a level, such as allocated devices; `area(i)` is its integral over interval i."""

    __slots__ = ("_areas", "_level", "_since_s", "_start_s", "width_s")

    def __init__(self, start_s: float, width_s: float) -> None:
        self.width_s = width_s
        self._start_s = self._since_s = start_s
        self._level = 0.0
        self._areas: list[float] = []

    def change(self, now_s: float, by: float) -> None:
        """Change the level now."""
        self.settle(now_s)
        self._level += by

    def settle(self, now_s: float) -> None:
        """Count the level up to now."""
        since_s, level, width_s, areas = self._since_s, self._level, self.width_s, self._areas
        if now_s <= since_s:
            return
        self._since_s = now_s
        if not level:
            return
        first = int((since_s - self._start_s) // width_s)
        last = int((now_s - self._start_s) // width_s)
        if last >= len(areas):
            areas.extend([0.0] * (last + 1 - len(areas)))
        if first == last:
            areas[first] += level * (now_s - since_s)
            return
        areas[first] += level * (self._start_s + (first + 1) * width_s - since_s)
        for between in range(first + 1, last):
            areas[between] += level * width_s
        areas[last] += level * (now_s - self._start_s - last * width_s)

    def means(self, intervals: int) -> list[float]:
        """Return the mean level of each of the first intervals."""
        means = [area / self.width_s for area in self._areas[:intervals]]
        return means + [0.0] * (intervals - len(means))
