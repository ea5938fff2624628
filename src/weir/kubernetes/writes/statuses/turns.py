"""Turns of namespaces among workloads that can't all be written now."""

from collections import Counter, deque
from collections.abc import Collection, Iterator

from weir.kubernetes.state.gangs.gang import Gang


def in_turns(gangs: Collection[Gang]) -> Iterator[Gang]:
    """Yield workloads, one of each namespace in turn; of a namespace in their order.

    The collection may change meanwhile.
    """
    lines: dict[str, list[Gang]] = {}
    for gang in gangs:
        lines.setdefault(gang.key.namespace, []).append(gang)
    waiting = deque(map(iter, lines.values()))
    while waiting:
        line = waiting.popleft()
        for gang in line:
            yield gang
            waiting.append(line)
            break


def calm_namespaces(gangs: Collection[Gang], few: int) -> frozenset[str]:
    """Return the namespaces that have no part in a burst: each has at most its share of a few workloads."""
    counts = Counter(gang.key.namespace for gang in gangs)
    share = max(1, few // max(1, len(counts)))
    return frozenset(namespace for namespace, count in counts.items() if count <= share)
