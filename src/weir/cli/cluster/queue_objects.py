"""Departments and projects of a cluster: list, read, set and delete."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from weir.api.answers import QueueDetail, QueuePage, QueueRow
from weir.api.queue_versions import version_refusal
from weir.cli.cluster.errors import refused, wrong
from weir.cli.cluster.objects import ListedQueue
from weir.cli.cluster.queue_rows import queue_row
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import ApiRefused, NotFound
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION, camel
from weir.scenario_io.specs import TimesEntry

Choice = Callable[[Sequence[ListedQueue]], Awaitable[Sequence[ListedQueue]]]
_KINDS = {"projects": "Project", "departments": "Department"}
_CONFLICT = 409
_TRIES = 5
"""Attempts of a change whose object gets a new status meanwhile."""


async def list_queues(api: ApiClient, kind: str, chosen: Choice | None = None) -> QueuePage:
    """Return all projects or departments, or the chosen ones.

    One that can't be read has a warning instead of numbers.
    """
    queues: Sequence[ListedQueue] = await api.list_all(path_of(API_VERSION, kind), ListedQueue)
    if chosen is not None:
        queues = await chosen(queues)
    rows = [_row_or_warning(queue, kind) for queue in queues]
    rows.sort(key=lambda row: row.name)
    return QueuePage(total=len(rows), items=rows)


def _row_or_warning(queue: ListedQueue, kind: str) -> QueueRow:
    try:
        return queue_row(queue, is_project=kind == "projects")
    except ValueError as error:
        name = queue.metadata.name
        row = QueueRow(name=name, kind="project" if kind == "projects" else "department")
        return row.model_copy(update={"warnings": [f"{row.kind} {name} can't be read: {error}"]})


async def access_queue(
    api: ApiClient, method: str, kind: str, name: str, body: bytes, version: str | None = None
) -> QueueRow | None:
    """Read, set or delete a project or department; with a version, set it only if it still has this one."""
    path = path_of(API_VERSION, kind, name=name)
    try:
        if method == "DELETE":
            await api.delete(path)
            return None
        if method == "PUT":
            queue = await _put_version(api, kind, name, msgspec.json.decode(body), version)
        else:
            queue = await api.get(path, ListedQueue)
    except NotFound:
        hint = f"`weir {kind[:-1]} list` shows which there are"
        raise refused(404, f"There is no {kind[:-1]} {name}; {hint}.") from None
    try:
        row = queue_row(queue, is_project=kind == "projects")
    except ValueError as error:
        raise wrong(f"{kind[:-1]} {name} can't be read: {error}") from None
    return QueueDetail(**{**dict(row), "version": _version_of(queue)})


async def tried_spec(api: ApiClient, kind: str, name: str, body: bytes) -> dict[str, Any]:
    """Return the spec that a queue would get, as the API server admits it; nothing changes."""
    before = await _find_queue(api, kind, name)
    words = msgspec.json.decode(body)
    return (await _put(api, kind, name, words, before, query={"dryRun": "All"})).spec


def _version_of(queue: ListedQueue) -> str:
    """Return the version of a queue's spec, which a new status doesn't change."""
    return f"{queue.metadata.uid}-{queue.metadata.generation}"


async def _find_queue(api: ApiClient, kind: str, name: str) -> ListedQueue | None:
    """Return a queue; None if it doesn't exist."""
    try:
        return await api.get(path_of(API_VERSION, kind, name=name), ListedQueue)
    except NotFound:
        return None


async def _put_version(
    api: ApiClient, kind: str, name: str, words: dict[str, Any], version: str | None
) -> ListedQueue:
    """Set a queue, provided that its version is still the one that the person has read.

    Raises:
        Refused: another person has changed the queue meanwhile, or a queue of this name exists already.
    """
    for left in reversed(range(_TRIES)):
        before = await _find_queue(api, kind, name)
        if not version:
            return await _put(api, kind, name, words, before)
        now = None if before is None else _version_of(before)
        if (sentence := version_refusal(kind[:-1], name, now, version)) is not None:
            raise refused(_CONFLICT, sentence)
        try:
            return await _put(api, kind, name, words, before, only_if_unchanged=True)
        except ApiRefused as error:
            if error.status != _CONFLICT or not left:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _put(
    api: ApiClient,
    kind: str,
    name: str,
    words: dict[str, Any],
    before: ListedQueue | None,
    *,
    only_if_unchanged: bool = False,
    query: Mapping[str, str] | None = None,
) -> ListedQueue:
    """Create a queue, or replace its spec except for its namespaces."""
    spec = _spec(words)
    if before is None:
        body = {"apiVersion": API_VERSION, "kind": _KINDS[kind], "metadata": {"name": name}, "spec": spec}
        return await api.post(path_of(API_VERSION, kind), body, ListedQueue, query=query)
    unchanged = {key: value for key, value in before.spec.items() if key == "namespaces" and key not in spec}
    removed = dict.fromkeys(set(before.spec) - set(spec) - set(unchanged))
    for key, old in before.spec.items():
        if isinstance(old, dict) and isinstance(spec.get(key), dict):
            spec[key] = {**dict.fromkeys(old), **spec[key]}
    changed: dict[str, Any] = {"spec": {**removed, **spec}}
    if only_if_unchanged:
        changed["metadata"] = {"resourceVersion": before.metadata.resource_version}
    path = path_of(API_VERSION, kind, name=name)
    return await api.patch(path, changed, Patch.MERGE, ListedQueue, query=query)


def _spec(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a queue's object, with fractions as texts."""
    spec: dict[str, Any] = {}
    for key, value in words.items():
        stated = _amounts(value) if isinstance(value, dict) else value
        if key != "name" and stated not in (None, {}):
            spec[camel(key)] = stated
    return spec


def _amounts(written: Mapping[str, Any]) -> dict[str, Any]:
    return {
        camel(name) if name in TimesEntry.model_fields else name: (
            f"{value:.15g}" if isinstance(value, float) else value
        )
        for name, value in written.items()
        if value is not None
    }
