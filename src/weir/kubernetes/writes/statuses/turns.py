"""Namespaces of workloads that can't all be written now."""

from collections import Counter
from collections.abc import Collection

from weir.kubernetes.state.gangs.gang import Gang


def namespace_of(gang: Gang) -> str:
    """Return the namespace of a workload."""
    return gang.key.namespace


def calm_namespaces(gangs: Collection[Gang], few: int) -> frozenset[str]:
    """Return the namespaces without a part in a burst: each has at most its share of FEW workloads."""
    counts = Counter(map(namespace_of, gangs))
    share = max(1, few // max(1, len(counts)))
    return frozenset(namespace for namespace, count in counts.items() if count <= share)
