"""Observations of the pool during the tour. The checks use them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.api.answers import EventRow, NodeRow, QueueRow, WorkloadDetail
from weir.cli.demo.jobs import PARTS
from weir.client.api import Pool
from weir.client.transport import ENDED

_EVENTS_A_LOOK = 200


@dataclass
class Observations:
    """Observations so far."""

    details: dict[str, WorkloadDetail] = field(default_factory=dict)  # last details by job
    events: list[EventRow] = field(default_factory=list)  # oldest first
    nodes: Sequence[NodeRow] = ()
    projects: Sequence[QueueRow] = ()
    most_held: dict[str, float] = field(default_factory=dict)  # maximum of allocated GPUs by project
    # Jobs that had parts of one device at the same time
    together: set[frozenset[str]] = field(default_factory=set)

    def status(self, name: str) -> str:
        """Return the status of a job; an empty text if it isn't submitted yet."""
        detail = self.details.get(name)
        return "" if detail is None else detail.status

    def is_over(self, name: str) -> bool:
        """Return True if a job is over."""
        return self.status(name) in ENDED

    def stopped_for_others(self) -> list[str]:
        """Return the victims of evictions for other workloads, in order."""
        names = (
            event.workload for event in self.events if event.kind == "stopping" and event.numbers.get("by")
        )
        return list(dict.fromkeys(name for name in names if name))


def look(pool: Pool, seen: Observations) -> list[EventRow]:
    """Observe the pool once; return the events since the last observation, oldest first."""
    rows = {row.name: row for row in pool.list()}
    for name in PARTS:
        detail = seen.details.get(name)
        if name in rows and (detail is None or rows[name].status != "pending" or detail.status != "pending"):
            seen.details[name] = pool.get(name)
        elif name in rows and detail is not None:
            seen.details[name] = detail.model_copy(update={"reason": rows[name].reason})
        elif detail is not None and detail.status not in ENDED:
            seen.details[name] = pool.get(name)
    seen.nodes, seen.projects = pool.nodes(), pool.projects()
    for project in seen.projects:
        allocated = project.allocated.get("gpu", 0.0)
        seen.most_held[project.name] = max(allocated, seen.most_held.get(project.name, 0.0))
    for node in seen.nodes:
        seen.together.update(
            frozenset(device.workloads) for device in node.devices if len(device.workloads) > 1
        )
    return _news(pool, seen)


def _news(pool: Pool, seen: Observations) -> list[EventRow]:
    last = seen.events[-1].id if seen.events else 0
    page = pool.events_page(limit=_EVENTS_A_LOOK)
    news = sorted((event for event in page.items if event.id > last), key=lambda event: event.id)
    seen.events += news
    return news
