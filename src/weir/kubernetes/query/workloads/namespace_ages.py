"""Ages of namespaces: an earlier one of the same name may have been another tenant's."""

from collections.abc import Sequence
from math import inf

from weir.kubernetes.api.changes import Change, keep
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.api.objects import Namespace


class NamespaceAges:
    """Times at which the namespaces of the cluster were created."""

    def __init__(self) -> None:
        self._created_s: dict[str, float] = {}

    def see(self, changes: Sequence[Change[Namespace]]) -> None:
        """Process new and deleted namespaces."""
        keep(changes, self._created_s, lambda namespace: at_s(namespace.metadata.creation_timestamp) or 0.0)

    def began_s(self, namespace: str) -> float:
        """Return the creation of a namespace: an earlier past isn't its own. Infinity if it doesn't exist.

        It may have been made again a moment ago, by another tenant. Only people with the right to read all
        namespaces see the past of an unknown one.
        """
        return self._created_s.get(namespace, inf) if namespace else 0.0
