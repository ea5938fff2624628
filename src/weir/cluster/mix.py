"""The mix of requests: what was asked for recently, the waiting included."""

from collections import deque

from weir.cluster.shapes import Shape

REMEMBERED = 4000
"""Requests that make the recent past."""
ENOUGH = 50
"""Requests before the mix says anything."""
GROUP_MOST = 64
"""Pods of one group that count: one huge gang isn't the usual work."""


class Mix:
    """How often each shape was asked for among the last requests."""

    def __init__(self) -> None:
        self._recent: deque[tuple[Shape, int]] = deque()
        self.count: dict[Shape, int] = {}
        self.total = 0

    def asked(self, shape: Shape, pods: int) -> None:
        """`pods` pods of this shape were asked for."""
        pods = min(pods, GROUP_MOST)
        self._recent.append((shape, pods))
        self.count[shape] = self.count.get(shape, 0) + pods
        self.total += pods
        while self.total > REMEMBERED and len(self._recent) > 1:
            oldest, gone = self._recent.popleft()
            self.total -= gone
            left = self.count[oldest] - gone
            if left:
                self.count[oldest] = left
            else:
                del self.count[oldest]
