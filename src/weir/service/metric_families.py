"""Prometheus metrics that the server of a pool and the scheduler of a cluster have in common."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from weir.api.answers import QueueRow
from weir.model.resources import CPU, GPU, MEMORY

WAIT_BOUNDS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
DECISION_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
Labels = TypeVar("Labels", bound=tuple[str, ...])
SUFFIXES = {GPU: "gpus", CPU: "cpu_cores", MEMORY: "memory_bytes"}
"""Suffixes of metrics by resource; any other resource is a label."""


class Histogram:
    """Counts durations by bucket."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Add a duration."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative counts by upper bound, and the sum of all values."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets, self._sum


def counter_family(
    name: str, about: str, counts: Mapping[Labels, float], *, labels: Sequence[str]
) -> CounterMetricFamily:
    """Return counts by the values of their labels."""
    family = CounterMetricFamily(name, about, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


def histogram_family(
    name: str, about: str, histograms: Mapping[str, Histogram], *, labels: Sequence[str]
) -> HistogramMetricFamily:
    """Return histograms by the value of their label."""
    family = HistogramMetricFamily(name, about, labels=labels)
    for value, histogram in sorted(histograms.items()):
        buckets, total = histogram.buckets()
        family.add_metric([value], buckets, total)
    return family


def plain_histogram(name: str, about: str, histogram: Histogram) -> HistogramMetricFamily:
    """Return a histogram without labels."""
    buckets, total = histogram.buckets()
    return HistogramMetricFamily(name, about, buckets=buckets, sum_value=total)


def queue_families(rows: Iterable[QueueRow]) -> Iterator[Metric]:
    """Yield the amounts of queues."""
    rows = list(rows)
    about = {
        "quota": "Guaranteed quota of a queue.",
        "limit": "Limit of a queue.",
        "share": "Fair share of a queue now.",
        "allocated": "Resources allocated to a queue, including stopping pods.",
    }
    for kind, help_text in about.items():
        for resource, suffix in SUFFIXES.items():
            family = GaugeMetricFamily(f"weir_queue_{kind}_{suffix}", help_text, labels=["queue", "kind"])
            for row in rows:
                amount = getattr(row, kind).get(resource)
                if amount is not None:
                    family.add_metric([row.name, row.kind], amount)
            yield family
        further = GaugeMetricFamily(
            f"weir_queue_{kind}_units", help_text, labels=["queue", "kind", "resource"]
        )
        for row in rows:
            for resource, amount in getattr(row, kind).items():
                if resource not in SUFFIXES:
                    further.add_metric([row.name, row.kind, resource], amount)
        yield further
    for state, help_text in (("pending", "Pending workloads."), ("running", "Running workloads.")):
        family = GaugeMetricFamily(f"weir_queue_{state}_workloads", help_text, labels=["queue", "kind"])
        for row in rows:
            family.add_metric([row.name, row.kind], getattr(row, state))
        yield family
