"""Attempt at an operation: the request, and the meaning of the answer.

An `ApiError` from this module means: try again later. If it `may_have_happened`, the outcome of the write is
uncertain, and the next attempt reads the object first.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.decoding import IgnoredObject
from weir.kubernetes.api.errors import (
    AlreadyExists,
    ApiError,
    ApiRefused,
    Conflict,
    NotFound,
    TooManyRequests,
)
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.translate.annotations import REPORTER
from weir.kubernetes.writes.delivery.claim_allocation import allocate_claim, check_devices
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard
from weir.kubernetes.writes.operations import (
    AllocateClaim,
    ApplyObject,
    Bind,
    EmitEvent,
    Evict,
    Outcome,
    PatchObject,
    PatchStatus,
    PodCondition,
    SuspendOwner,
    UpsertWorkload,
    Write,
    WriteDone,
    WriteRefused,
    stated,
)
from weir.kubernetes.writes.shown_text import shown

NAME_MAX, NOTE_BYTES_MAX, INSTANCE_MAX = 230, 1024, 128
_SEVERAL = "more than one PodDisruptionBudget"


class _PlacedSpec(ApiStruct):
    node_name: str = ""


class _Placed(ApiStruct):
    """A pod, of which only the node is decoded."""

    metadata: Metadata
    spec: _PlacedSpec


async def send(api: LeaderGuard, write: Write, *, uncertain: bool) -> Outcome:
    """Send a write once.

    Raises:
        ApiError: the write has to be tried again.
    """
    try:
        match write:
            case Bind():
                return await _bind(api, write, uncertain=uncertain)
            case Evict():
                return await _evict(api, write, uncertain=uncertain)
            case UpsertWorkload():
                return await _upsert(api, write)
            case PatchStatus():
                path = write.path if write.inside else f"{write.path}/status"
                await api.patch(path, write.patch, write.kind, IgnoredObject)
            case ApplyObject():
                await api.patch(write.path, write.body, Patch.APPLY, IgnoredObject)
            case PatchObject() | SuspendOwner():
                await api.patch(write.object_path, write.patch, Patch.MERGE, IgnoredObject)
        return WriteDone()
    except ApiRefused as error:
        if _passes(error) or (
            isinstance(error, Conflict) and not isinstance(write, Bind | PatchObject | SuspendOwner)
        ):
            raise  # writes without a precondition are retried after a conflict
        if uncertain and isinstance(write, Bind):
            raise  # retry: an earlier try may still succeed
        return WriteRefused(error.status, error.message)


def _passes(error: ApiRefused) -> bool:
    """Return True if the refusal has a passing cause that doesn't depend on the operation."""
    return isinstance(error, TooManyRequests) or error.status >= 500 or error.status in {401, 408}


# Bindings


async def _bind(api: LeaderGuard, write: Bind, *, uncertain: bool) -> Outcome:
    if uncertain and (outcome := await _bound(api, write)) is not None:
        return outcome
    claims = []
    for preparation in write.before:
        if isinstance(preparation, AllocateClaim):
            claims.append((preparation, await allocate_claim(api, preparation)))
            continue
        await api.patch(preparation.path, preparation.patch, Patch.MERGE, IgnoredObject)
    for allocate, claim in claims:
        await check_devices(api, allocate, claim)
    metadata = {"name": write.name, "uid": write.uid, "annotations": write.annotations}
    target = {"apiVersion": "v1", "kind": "Node", "name": write.node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        await api.post(f"{write.object_path}/binding", body, IgnoredObject)
    except Conflict:
        outcome = await _bound(api, write) if uncertain else None  # an earlier try may have succeeded
        if outcome is None:
            raise
        return outcome
    return WriteDone()


async def _bound(api: LeaderGuard, write: Bind) -> Outcome | None:
    """Return the outcome of a binding whose answer was lost; None if it hasn't happened."""
    pod = await _pod(api, write)
    if pod is None:
        return WriteRefused(404, f"The pod {write.namespace}/{write.name} is gone.")
    if not pod.spec.node_name:
        return None
    if pod.spec.node_name == write.node and write.annotations.items() <= pod.metadata.annotations.items():
        return WriteDone()
    return WriteRefused(
        409, f"The pod {write.namespace}/{write.name} was bound to {pod.spec.node_name} meanwhile."
    )


# Evictions


async def _evict(api: LeaderGuard, write: Evict, *, uncertain: bool) -> Outcome:
    if uncertain and await _stops(api, write):
        return WriteDone()
    if write.ends is not None:
        with suppress(NotFound, Conflict):  # the pod is gone, or another one has its name: see below
            await api.patch(
                f"{write.object_path}/status",
                _ends(write, write.ends, api.clock()),
                Patch.STRATEGIC,
                IgnoredObject,
            )
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
        await api.post(f"{write.object_path}/eviction", body, IgnoredObject)
    except NotFound:
        return WriteDone()
    except ApiRefused as error:
        if write.overrides and refused_by_budget(error):
            with suppress(NotFound):
                await api.delete(write.object_path, uid=write.uid, grace_s=write.grace_s)
            return WriteDone()
        if isinstance(error, Conflict) and await _stops(api, write):
            return WriteDone()
        raise
    return WriteDone()


def _ends(write: Evict, condition: PodCondition, now_s: float) -> Mapping[str, object]:
    body = {
        "type": condition.type,
        "status": "True",
        "reason": condition.reason,
        "message": _cut(condition.message),
        "lastTransitionTime": moment(now_s),
    }
    return {"metadata": {"uid": write.uid}, "status": {"conditions": [body]}}


def refused_by_budget(error: ApiError) -> bool:
    """Return True if disruption budgets refuse an eviction; the API says 500 for a pod with several."""
    if isinstance(error, TooManyRequests):
        return error.by_budget
    return isinstance(error, ApiRefused) and error.status == 500 and _SEVERAL in error.message


async def _stops(api: LeaderGuard, write: Evict) -> bool:
    """Return True if the pod is already terminating or deleted."""
    pod = await _pod(api, write)
    return pod is None or pod.metadata.deletion_timestamp is not None


async def _pod(api: LeaderGuard, write: Bind | Evict) -> _Placed | None:
    """Return the pod of this uid; None if it is gone."""
    try:
        pod = await api.get(write.object_path, _Placed)
    except NotFound:
        return None
    return pod if pod.metadata.uid == write.uid else None


# Other objects


async def _upsert(api: LeaderGuard, write: UpsertWorkload) -> Outcome:
    if write.exists:
        with suppress(NotFound):
            await api.patch(write.object_path, write.body, Patch.MERGE, IgnoredObject)
            return WriteDone()
    try:
        await api.post(write.path, stated(write.body), IgnoredObject)
    except AlreadyExists:
        await api.patch(write.object_path, write.body, Patch.MERGE, IgnoredObject)
    return WriteDone()


async def emit(api: LeaderGuard, event: EmitEvent) -> None:
    """Create an event, which `kubectl describe` shows.

    Raises:
        ApiError: the API server didn't accept the event.
    """
    path = path_of("events.k8s.io/v1", "events", event.regarding.namespace or "default")
    with suppress(AlreadyExists):
        await api.post(path, _event(event, api.clock()), IgnoredObject)


def _event(event: EmitEvent, now_s: float) -> Mapping[str, object]:
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
        "metadata": {"name": f"{regarding.name[:NAME_MAX]}.{uuid4().hex[:16]}"},
        "eventTime": datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": REPORTER,
        "reportingInstance": socket.gethostname()[:INSTANCE_MAX],  # in a pod, the name of the pod
        "regarding": {key: value for key, value in about.items() if value},
        "action": event.action,
        "reason": event.reason,
        "note": _cut(shown(event.note)),
        "type": event.type,
    }


def _cut(note: str) -> str:
    """Cut a note to the number of bytes that the API server accepts."""
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES_MAX:
        return note
    return encoded[: NOTE_BYTES_MAX - 3].decode(errors="ignore") + "…"
