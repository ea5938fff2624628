"""Last evictions of live workloads, as stored: a server that starts shows them again."""

from weir.api.workload_list import EvictionRow
from weir.store.records import HistoryEvent
from weir.store.store import Store


def stored_evictions(store: Store) -> dict[int, EvictionRow]:
    """Return the last eviction of each workload that isn't over, by its number."""
    return {event.uid: _eviction(event) for event in store.events.last_evictions() if event.uid is not None}


def _eviction(event: HistoryEvent) -> EvictionRow:
    def text(name: str) -> str | None:
        value = event.numbers.get(name)
        return value if isinstance(value, str) else None

    return EvictionRow(
        at_s=event.at_s,
        rule=text("rule") or "",
        sentence=text("cause") or event.sentence,
        by=text("by"),
        by_user=text("by_user"),
        by_project=text("by_project"),
        choice=text("choice") or "",
    )
