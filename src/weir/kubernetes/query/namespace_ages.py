"""Ages of namespaces: what happened in an earlier one of the same name may have been another tenant's."""

from collections.abc import Sequence
from math import inf

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.api.objects import Namespace


class NamespaceAges:
    """Times at which the namespaces of the cluster were created."""

    def __init__(self) -> None:
        self._created_s: dict[str, float] = {}

    def see(self, changes: Sequence[Change[Namespace]]) -> None:
        """Take in namespaces that are there or gone."""
        for change in changes:
            if isinstance(change, ObjectSet):
                self._created_s[change.key] = at_s(change.object.metadata.creation_timestamp) or 0.0
            elif isinstance(change, ObjectRemoved):
                self._created_s.pop(change.key, None)

    def began_s(self, namespace: str) -> float:
        """Return the time from which the past of a namespace is its own; 0 for one that isn't there.

        Rights in one namespace go with it: only those who may read all namespaces ask about one that is gone.
        A cluster is never without namespaces: before they are known, nothing is anyone's.
        """
        if not namespace:
            return 0.0
        return self._created_s.get(namespace, 0.0) if self._created_s else inf
