"""Past of workloads: spans of time in which they waited or held GPUs, evictions, and measured use."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

USE_S = 300
"""Measured use is summed over this time."""


@dataclass(frozen=True, slots=True)
class UsageSpan:
    """Time from which a workload holds GPUs, waits, or is over, up to its next span."""

    from_s: float
    gpus: float
    waits: bool
    nodes: tuple[tuple[str, float], ...] = ()  # the GPUs by node, where that is recorded


@dataclass(frozen=True, slots=True)
class PastEviction:
    """An eviction, and the GPU seconds that it lost; None: unknown."""

    at_s: float
    rule: str
    lost_gpu_s: float | None = None


@dataclass(slots=True)
class UsageHistoryEntry:
    """Past of one workload: its spans, evictions and measured use."""

    namespace: str
    project: str
    type: str
    submitted_s: float
    first_started_s: float | None = None
    ended_s: float | None = None
    spans: list[UsageSpan] = field(default_factory=list)
    evictions: list[PastEviction] = field(default_factory=list)
    uses: dict[int, tuple[float, float]] = field(default_factory=dict)  # seen and used GPU seconds by time
    user: str = ""  # user who created it; empty if unknown

    def between(self, since_s: float, until_s: float) -> Iterator[tuple[float, float, UsageSpan]]:
        """Yield the spans within a period, each with its start and its end."""
        last = UsageSpan(until_s, 0.0, waits=False)
        for span, following in pairwise([*self.spans, last]):
            start_s, end_s = max(since_s, span.from_s), min(until_s, following.from_s)
            if start_s < end_s:
                yield start_s, end_s, span

    def measured(self, since_s: float, until_s: float) -> tuple[float, float]:
        """Return the GPU seconds of a period whose use is known, and those of them that were used."""
        within = [sums for at_s, sums in self.uses.items() if since_s - USE_S < at_s < until_s]
        return sum(seen for seen, _ in within), sum(used for _, used in within)

    def used_spans(self, since_s: float, until_s: float) -> Iterator[tuple[float, float, float]]:
        """Yield the start, the end and the used GPUs of each measured time within a period."""
        for at_s, (_, used_gpu_s) in self.uses.items():
            end_s = min(until_s, float(at_s + USE_S))
            if used_gpu_s and max(since_s, at_s) < end_s:
                yield max(since_s, float(at_s)), end_s, used_gpu_s / (end_s - at_s)

    def is_within(self, since_s: float, until_s: float) -> bool:
        """Return True if it waited or held GPUs in a period."""
        return any(span.waits or span.gpus for _, _, span in self.between(since_s, until_s))
