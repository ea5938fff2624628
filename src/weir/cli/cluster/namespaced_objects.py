"""Objects of one kind in the namespaces of a cluster, by the names that people write."""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from weir.cli.cluster.errors import refused
from weir.cli.cluster.lookup import Lookup
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused, NotFound
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.translate.annotations import PREFIX

_LISTED_MAX = 8


class _HasMetadata(Protocol):
    metadata: Metadata


Kind = TypeVar("Kind", bound=_HasMetadata)


class NamespacedObjects(Generic[Kind]):
    """Objects of a kind with a label."""

    def __init__(
        self,
        api: ApiClient,
        lookup: Lookup,
        group_version: str,
        resource: str,
        kind: type[Kind],
        *,
        noun: str,
        selector: str = "",
        shown_by: str = "",
    ) -> None:
        """Begin. `shown_by` is the command that lists the objects; by default that of the noun."""
        self._api = api
        self._shown_by = shown_by or f"{noun} list"
        self._group_version, self._resource, self._kind = group_version, resource, kind
        self._noun, self._selector = noun, selector
        self._within, self._only = lookup.within, lookup.namespace

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of an object, or of all objects of a namespace."""
        return path_of(self._group_version, self._resource, namespace, name)

    async def all(self) -> list[Kind]:
        """Return the objects of all namespaces, or of the default one if the person may list no others."""
        if self._only is None:
            try:
                return await self._list("")
            except ApiRefused as error:
                if error.status != 403:
                    raise
        return await self._list(self._within)

    async def _list(self, namespace: str) -> list[Kind]:
        return await self._api.list_all(self.path(namespace), self._kind, label_selector=self._selector)

    async def named(self, name: str) -> Kind:
        """Return the object with a name; its namespace may precede it.

        Raises:
            Refused: there is none, or there are several.
        """
        namespace, _, bare = name.rpartition("/")
        if namespace:
            try:
                return await self._api.get(self.path(namespace, bare), self._kind)
            except NotFound:
                raise self._none(name) from None
        matching = [candidate for candidate in await self.all() if candidate.metadata.name == bare]
        nearby = [candidate for candidate in matching if candidate.metadata.namespace == self._within]
        candidates = nearby or matching
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            raise self._none(name)
        names = ", ".join(candidate.metadata.key for candidate in candidates[:_LISTED_MAX])
        raise refused(409, f"There are several {self._noun}s {name}: write one of {names}.")

    def _none(self, name: str) -> Exception:
        return refused(
            404, f"There is no {self._noun} {name[:80]}; `weir {self._shown_by}` shows which there are."
        )


def creator_of(job_template: Mapping[str, Any]) -> str:
    """Return the account that created a schedule or a sweep, by the template of its Jobs; empty if unknown.

    Weir's webhook writes the account on the template.
    """
    try:
        return str(job_template["metadata"]["annotations"][f"{PREFIX}user"])
    except (KeyError, TypeError):
        return ""
