"""The mix of recent requests, pending ones included."""

from collections import deque

from weir.state.capacity_columns import CapacityColumns
from weir.state.shapes import RequestShape

MAX_PODS = 4000
"""Limit of recently requested pods in the mix."""
MIN_PODS = 50
"""Number of requested pods from which on the mix is used."""
GROWTH = 0.25
"""New requests, as a fraction of the remembered ones, after which the mix is computed again."""
MAX_GROUP_PODS = 64
"""Limit of pods of one group in the mix, because a huge gang isn't typical."""


class RequestMix:
    """Frequency of each shape among recent requests.

    The engine uses `drawn`, the frequencies, with `free_capacity`, the free capacity at their computation:
    shapes that seldom fitted are scarce. Both are computed again only after enough new requests, because all
    scores depend on them; `version` counts this.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[RequestShape, int]] = deque()
        self._count: dict[RequestShape, int] = {}
        self._total = 0
        self._since_drawn = 0
        self.drawn: tuple[tuple[RequestShape, int], ...] = ()
        self.free_capacity: CapacityColumns | None = None
        self.version = 0

    def frozen(self) -> "RequestMix":
        """Return the mix as decisions use it, without the requests that it was computed from."""
        mix = RequestMix()
        mix.drawn, mix.free_capacity, mix.version = self.drawn, self.free_capacity, self.version
        return mix

    def asked(self, shape: RequestShape, pods: int, free_capacity: CapacityColumns) -> None:
        """Count a request for `pods` pods of this shape at this free capacity."""
        pods = min(pods, MAX_GROUP_PODS)
        self._recent.append((shape, pods))
        self._count[shape] = self._count.get(shape, 0) + pods
        self._total += pods
        self._since_drawn += pods
        while self._total > MAX_PODS and len(self._recent) > 1:
            oldest, gone = self._recent.popleft()
            self._total -= gone
            self._count[oldest] -= gone
            if not self._count[oldest]:
                del self._count[oldest]
        if self._total >= MIN_PODS and (not self.drawn or self._since_drawn >= GROWTH * self._total):
            self.drawn = tuple(sorted(self._count.items(), key=lambda entry: (-entry[1], entry[0].id)))
            self.free_capacity = free_capacity.copy()
            self.version += 1
            self._since_drawn = 0
