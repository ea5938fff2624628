"""One try at a write: what is sent, and what the answer means.

An `ApiError` that leaves here means: try again later. If it `may_have_happened`, the next try is told
that the write is uncertain and looks first at how things are.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

from weir.kubernetes.api.answers import AlreadyExists, ApiError, Conflict, NotFound, Refused, TooMany
from weir.kubernetes.api.connection import Patch
from weir.kubernetes.api.decoding import Ignored
from weir.kubernetes.api.objects import Metadata, Narrow
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.writing.fenced import Fenced
from weir.kubernetes.writing.writes import (
    ApplyObject,
    Bind,
    Condition,
    Done,
    Emit,
    Evict,
    Outcome,
    PatchMetadata,
    PatchNode,
    PatchStatus,
    RefusedWrite,
    Upsert,
    Write,
)

NAME_MOST, NOTE_BYTES_MOST = 230, 1024
REPORTER = "weir.dev/weir"
_SEVERAL = "more than one PodDisruptionBudget"


class _PlacedSpec(Narrow):
    node_name: str = ""


class _Placed(Narrow):
    """A pod, for where it is."""

    metadata: Metadata
    spec: _PlacedSpec


async def send(api: Fenced, write: Write, *, uncertain: bool) -> Outcome:
    """Try it once.

    Raises:
        ApiError: it has to be tried again.
    """
    try:
        match write:
            case Bind():
                return await _bind(api, write, uncertain=uncertain)
            case Evict():
                return await _evict(api, write, uncertain=uncertain)
            case Upsert():
                return await _upsert(api, write)
            case PatchStatus():
                await api.patch(f"{write.path}/status", write.patch, write.kind, Ignored)
            case ApplyObject():
                await api.patch(write.path, write.body, Patch.APPLY, Ignored)
            case PatchNode() | PatchMetadata():
                await api.patch(write.object_path, write.patch, Patch.MERGE, Ignored)
        return Done()
    except Refused as error:
        if _passes(error) or (
            isinstance(error, Conflict) and not isinstance(write, Bind | PatchNode | PatchMetadata)
        ):
            raise  # the other kinds have no precondition that may not hold
        if uncertain and isinstance(write, Bind):
            raise  # an earlier try may be carried out yet, whatever became of this one
        return RefusedWrite(error.status, error.message)


def _passes(error: Refused) -> bool:
    """Whether it isn't this write that was refused."""
    return isinstance(error, TooMany) or error.status >= 500 or error.status in {401, 408}


# Bindings


async def _bind(api: Fenced, write: Bind, *, uncertain: bool) -> Outcome:
    if uncertain and (outcome := await _bound(api, write)) is not None:
        return outcome
    for each in write.before:
        await api.patch(each.path, each.patch, Patch.MERGE, Ignored)
    metadata = {"name": write.name, "uid": write.uid, "annotations": write.annotations}
    target = {"apiVersion": "v1", "kind": "Node", "name": write.node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        await api.post(f"{write.object_path}/binding", body, Ignored)
    except Conflict:
        outcome = await _bound(api, write) if uncertain else None  # the first try may have come through late
        if outcome is None:
            raise
        return outcome
    return Done()


async def _bound(api: Fenced, write: Bind) -> Outcome | None:
    """What has become of a binding whose answer was lost; None: nothing yet."""
    pod = await _pod(api, write)
    if pod is None:
        return RefusedWrite(404, f"The pod {write.namespace}/{write.name} is gone.")
    if not pod.spec.node_name:
        return None
    if pod.spec.node_name == write.node and write.annotations.items() <= pod.metadata.annotations.items():
        return Done()
    return RefusedWrite(
        409, f"The pod {write.namespace}/{write.name} was bound to {pod.spec.node_name} meanwhile."
    )


# Evictions


async def _evict(api: Fenced, write: Evict, *, uncertain: bool) -> Outcome:
    if uncertain and await _stops(api, write):
        return Done()
    if write.ends is not None:
        with suppress(NotFound, Conflict):  # the pod is gone, or another one has its name: see below
            await api.patch(f"{write.object_path}/status", _ends(write, write.ends), Patch.STRATEGIC, Ignored)
    options: dict[str, object] = {"preconditions": {"uid": write.uid}}
    if write.grace_s is not None:
        options["gracePeriodSeconds"] = write.grace_s
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": write.name, "namespace": write.namespace},
        "deleteOptions": options,
    }
    try:
        await api.post(f"{write.object_path}/eviction", body, Ignored)
    except NotFound:
        return Done()
    except Refused as error:
        if write.overrides and refused_by_budget(error):
            with suppress(NotFound):
                await api.delete(write.object_path, uid=write.uid)
            return Done()
        if isinstance(error, Conflict) and await _stops(api, write):
            return Done()
        raise
    return Done()


def _ends(write: Evict, condition: Condition) -> Mapping[str, object]:
    said = {
        "type": condition.type,
        "status": "True",
        "reason": condition.reason,
        "message": _cut(condition.message),
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": write.uid}, "status": {"conditions": [said]}}


def refused_by_budget(error: ApiError) -> bool:
    """Return True if a disruption budget allows no eviction; of a pod with several the API says 500."""
    if isinstance(error, TooMany):
        return error.by_budget
    return isinstance(error, Refused) and error.status == 500 and _SEVERAL in error.message


async def _stops(api: Fenced, write: Evict) -> bool:
    """Whether the pod stops already, or is gone."""
    pod = await _pod(api, write)
    return pod is None or pod.metadata.deletion_timestamp is not None


async def _pod(api: Fenced, write: Bind | Evict) -> _Placed | None:
    """The very pod: another one of the same name isn't it."""
    try:
        pod = await api.get(write.object_path, _Placed)
    except NotFound:
        return None
    return pod if pod.metadata.uid == write.uid else None


# Other objects


async def _upsert(api: Fenced, write: Upsert) -> Outcome:
    if write.there:
        with suppress(NotFound):
            await api.patch(write.object_path, write.body, Patch.MERGE, Ignored)
            return Done()
    try:
        await api.post(write.path, write.body, Ignored)
    except AlreadyExists:
        await api.patch(write.object_path, write.body, Patch.MERGE, Ignored)
    return Done()


async def emit(api: Fenced, event: Emit) -> None:
    """Say something where `kubectl describe` shows it.

    Raises:
        ApiError: it wasn't taken.
    """
    path = path_of("events.k8s.io/v1", "events", event.regarding.namespace or "default")
    with suppress(AlreadyExists):
        await api.post(path, _event(event), Ignored)


def _event(event: Emit) -> Mapping[str, object]:
    regarding = event.regarding
    about = {
        "apiVersion": regarding.api_version,
        "kind": regarding.kind,
        "name": regarding.name,
        "namespace": regarding.namespace,
        "uid": regarding.uid,
    }
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{regarding.name[:NAME_MOST]}.{uuid4().hex[:16]}"},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": REPORTER,
        "reportingInstance": REPORTER,
        "regarding": {key: value for key, value in about.items() if value},
        "action": event.action,
        "reason": event.reason,
        "note": _cut(event.note),
        "type": event.type,
    }


def _cut(note: str) -> str:
    """As much of it as the server takes, which counts bytes."""
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES_MOST:
        return note
    return encoded[: NOTE_BYTES_MOST - 3].decode(errors="ignore") + "…"
