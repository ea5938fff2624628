"""Activity of workloads in the watches of a dashboard: asked for by each, transferred once for all.

Each watch asks with the rights of its own person, and names the version that any watch of the same scope has
read. Weir leaves out states that are the same.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary


@dataclass(frozen=True, slots=True, weakref_slot=True)
class WorkloadStates:
    """States of measured workloads, by namespace and name.

    `namespace`: their only one; empty for all. `version`: a digest of them.
    """

    namespace: str = ""
    version: str = ""
    by_name: Mapping[str, str] = field(default_factory=dict)


Ask = Callable[[Mapping[str, str]], Awaitable[dict[str, Any] | None]]


class SharedStates:
    """Newest states by namespace, as long as a watch shows them. Belongs to an event loop."""

    def __init__(self) -> None:
        self._newest: WeakValueDictionary[str, WorkloadStates] = WeakValueDictionary()

    async def read(self, shown: WorkloadStates, ask: Ask) -> WorkloadStates:
        """Return the states for a watch; its present ones if the server doesn't answer.

        `ask` sends a request for workloads with these parameters.
        """
        cached = self._newest.get(shown.namespace, shown)
        answer = await ask({"fields": "activity", "known": cached.version, "limit": "1"})
        if answer is None:
            return shown
        version, namespace = answer.get("version"), answer.get("namespace", "")
        if version is None:  # an older Weir, which only answers with all rows
            return WorkloadStates(shown.namespace)
        if version == cached.version:
            return cached
        newest = self._newest.get(namespace)
        if newest is None or newest.version != version:  # else another watch has read it
            states: Mapping[str, list[str]] = answer.get("states") or {}
            by_name = {name: state for state, names in states.items() for name in names}
            newest = self._newest[namespace] = WorkloadStates(namespace, version, by_name)
        return newest
