"""What a Weir in a cluster tells Prometheus: whether it leads, what it decides, and how its requests fare."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from weir.server.on_kubernetes import Instance


class ClusterMetrics(Collector):
    """Reads counts that are kept anyway, when it is asked."""

    def __init__(self, instance: "Instance") -> None:
        self._instance = instance
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Nothing beforehand."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """As it is now."""
        here = self._instance
        yield GaugeMetricFamily("weir_leading", "Whether this one decides.", here.leading.may_write())
        plans, took = here.household.plans, here.household.planning_s
        yield CounterMetricFamily("weir_plans", "Plans made.", plans)
        yield CounterMetricFamily("weir_planning_seconds", "Time spent on making them.", took)
        objects = GaugeMetricFamily("weir_objects", "Objects watched, by resource.", labels=["resource"])
        relists = CounterMetricFamily("weir_lists", "Times a resource was listed whole.", labels=["resource"])
        for resource, reflector in here.reflectors.items():
            objects.add_metric([resource], len(reflector))
            relists.add_metric([resource], reflector.counts.lists)
        yield objects
        yield relists
        unreadable = GaugeMetricFamily(
            "weir_unreadable_objects", "Objects left out because they can't be read.", labels=["resource"]
        )
        for resource, count in here.backend.unreadable_counts().items():
            unreadable.add_metric([resource], count)
        yield unreadable
        acting = here.acting
        tries = CounterMetricFamily(
            "weir_writes", "Writes to the API server, by what they met.", labels=["what"]
        )
        for what, count in (
            ("tried", acting.tries),
            ("retried", acting.retries),
            ("throttled", acting.throttled),
        ):
            tries.add_metric([what], count)
        yield tries
