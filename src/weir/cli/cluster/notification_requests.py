"""Notifications of a cluster: objects of people's namespaces, which they change with their own rights."""

import asyncio
import base64
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel

from weir.api.field_errors import read_model
from weir.api.name_endings import random_ending
from weir.api.notifications import (
    DeliveryPage,
    DeliveryRow,
    NotificationAsked,
    NotificationMade,
    NotificationPage,
    NotificationRow,
    NotificationTested,
)
from weir.cli.cluster.body_errors import BodyErrors
from weir.cli.cluster.errors import not_here, refused
from weir.cli.cluster.lookup import Lookup
from weir.cli.cluster.namespaced_objects import NamespacedObjects
from weir.cli.cluster.other_tools import NO_DESKTOP, instead_of
from weir.cli.cluster.person import user_of
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import AlreadyExists, ApiError, NotFound
from weir.kubernetes.api.object_numbers import number_of, seconds_of
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.notification_objects import (
    CHANNELS,
    KIND,
    PLURAL,
    READY,
    SECRET,
    TEST_ANNOTATION,
    TOPICS,
    NotificationRuleObject,
)
from weir.kubernetes.crd.schemas import API_VERSION
from weir.model.notifications import DeliveryState
from weir.model.resources import seconds
from weir.notifications.message_texts import new_signing_secret

CHECKED_S = 6.0
"""Time that a new rule has to be checked by Weir."""
TESTED_S = 40.0
LOOK_S = 0.3


class NotificationRequests:
    """Notification rules of one cluster."""

    def __init__(self, api: ApiClient, lookup: Lookup) -> None:
        self._api = api
        self._lookup = lookup
        kind = (API_VERSION, PLURAL, NotificationRuleObject)
        self._objects = NamespacedObjects(api, lookup, *kind, noun="notification", shown_by="notify list")

    async def answer(
        self, method: str, parts: Sequence[str], params: Mapping[str, str], body: bytes
    ) -> BaseModel | None:
        """Return the answer to a request below /notifications; None for a deletion.

        Raises:
            PoolError: the request is invalid, or a cluster can't carry it out.
        """
        match method, list(parts):
            case "GET", []:
                rows = [NotificationRow(**_row_fields(rule)) for rule in await self._all()]
                return NotificationPage(total=len(rows), items=rows)
            case "POST", []:
                return await self._add(body)
            case "GET", ["deliveries"]:
                return self._deliveries(await self._all(), params)
            case "DELETE", [name]:
                await self._remove(await self._objects.named(name))
                return None
            case "POST", [name, "test"]:
                return await self._test(await self._objects.named(name))
        raise not_here(instead_of(["notifications", *parts]))

    async def _all(self) -> list[NotificationRuleObject]:
        return sorted(await self._objects.all(), key=lambda rule: rule.metadata.key)

    # Changes

    async def _add(self, body: bytes) -> NotificationMade:
        errors = BodyErrors("The notification")
        asked = read_model(NotificationAsked, body, errors)
        if asked.channel == "desktop":
            errors.add(("channel",), f"channel: {NO_DESKTOP}")
        unknown = [topic for topic in asked.on if topic not in TOPICS]
        if unknown:
            errors.add(
                ("on",), f"on: a cluster doesn't tell of {unknown[0]}; write one of {', '.join(TOPICS)}"
            )
        errors.refuse_if_any()
        if asked.project is not None:
            namespace, user = await self._lookup.namespace_of(asked.project), ""
        else:
            namespace, user = self._lookup.within, await user_of(self._api)
            if not user:
                raise not_here("the API server doesn't name your user (SelfSubjectReview): write -p PROJECT")
        name = f"{asked.channel}-{random_ending()}"
        spec: dict[str, Any] = {"channel": asked.channel, "topics": list(dict.fromkeys(asked.on))}
        optional = {
            "user": user,
            "project": asked.project,
            "quiet": asked.quiet,
            "digest": f"{asked.digest:.0f}s" if asked.digest else "",
        }
        spec |= {key: value for key, value in optional.items() if value}
        signing = ""
        if asked.channel == "mail":
            spec["address"] = asked.target
        else:
            values = {f"{name}.url": asked.target}
            spec["urlKey"] = f"{name}.url"
            if asked.channel == "webhook":
                signing = new_signing_secret()
                spec["signingSecretKey"] = f"{name}.signing-secret"
                values[spec["signingSecretKey"]] = signing
            await self._write_secret(namespace, values)
        rule = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
        try:
            made = await self._api.post(self._objects.path(namespace), rule, NotificationRuleObject)
        except ApiError:
            await self._forget_keys(namespace, spec)
            raise
        made = await self._checked(made)
        return NotificationMade(**_row_fields(made), secret=signing or None)

    async def _write_secret(self, namespace: str, values: Mapping[str, str]) -> None:
        """Write values into the Secret of the namespace's receivers; create it if need be."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        path = path_of("v1", "secrets", namespace, SECRET)
        try:
            await self._api.patch(path, {"data": data}, Patch.MERGE, ApiObject)
        except NotFound:
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data}
            try:
                await self._api.post(path_of("v1", "secrets", namespace), secret, ApiObject)
            except AlreadyExists:
                await self._api.patch(path, {"data": data}, Patch.MERGE, ApiObject)

    async def _forget_keys(self, namespace: str, spec: Mapping[str, Any]) -> None:
        """Remove the keys of a rule from the Secret, if the person may."""
        keys = [spec[key] for key in ("urlKey", "signingSecretKey") if spec.get(key)]
        if keys:
            path = path_of("v1", "secrets", namespace, SECRET)
            with suppress(ApiError):
                await self._api.patch(path, {"data": dict.fromkeys(keys)}, Patch.MERGE, ApiObject)

    async def _checked(self, made: NotificationRuleObject) -> NotificationRuleObject:
        """Return a new rule after Weir's check of it; without the check if Weir takes longer."""
        until_s = time.monotonic() + CHECKED_S
        while not made.status.phase and time.monotonic() < until_s:
            await asyncio.sleep(LOOK_S)
            made = await self._read(made)
        return made

    async def _read(self, rule: NotificationRuleObject) -> NotificationRuleObject:
        path = self._objects.path(rule.metadata.namespace, rule.metadata.name)
        return await self._api.get(path, NotificationRuleObject)

    async def _remove(self, rule: NotificationRuleObject) -> None:
        metadata = rule.metadata
        await self._api.delete(self._objects.path(metadata.namespace, metadata.name), uid=metadata.uid)
        own = {"urlKey": rule.spec.url_key, "signingSecretKey": rule.spec.signing_secret_key}
        made = {key: value for key, value in own.items() if (value or "").startswith(f"{metadata.name}.")}
        await self._forget_keys(metadata.namespace, made)  # keys that a person named may have other uses

    async def _test(self, rule: NotificationRuleObject) -> NotificationTested:
        """Request a test message by an annotation, and wait for its outcome."""
        test = secrets.token_hex(8)
        path = self._objects.path(rule.metadata.namespace, rule.metadata.name)
        change = {"metadata": {"uid": rule.metadata.uid, "annotations": {TEST_ANNOTATION: test}}}
        rule = await self._api.patch(path, change, Patch.MERGE, NotificationRuleObject)
        until_s = time.monotonic() + TESTED_S
        while time.monotonic() < until_s:
            outcome = rule.status.test
            if outcome is not None and outcome.id == test:
                return NotificationTested(delivered=outcome.delivered, sentence=outcome.sentence)
            await asyncio.sleep(LOOK_S)
            rule = await self._read(rule)
        raise refused(
            503, "No leader of Weir has sent the test: kubectl get pods -n weir-system shows its pods"
        )

    # Lists

    def _deliveries(self, rules: Sequence[NotificationRuleObject], params: Mapping[str, str]) -> DeliveryPage:
        states = {state for state in params.get("state", "").split(",") if state}
        rows = [row for rule in rules for row in _delivery_rows(rule) if not states or row.state in states]
        rows.sort(key=lambda row: row.made_s, reverse=True)
        return DeliveryPage(total=len(rows), items=rows)


def _row_fields(rule: NotificationRuleObject) -> dict[str, Any]:
    spec, status, metadata = rule.spec, rule.status, rule.metadata
    return {
        "id": number_of(metadata.uid),
        "name": rule.metadata.key,
        "channel": next((channel for channel in CHANNELS if channel == spec.channel), "mail"),
        "target": status.receiver or spec.address or f"{spec.url_key} of Secret {SECRET}",
        "on": [topic for topic in TOPICS if topic in spec.topics],
        "project": spec.project or None,
        "user": spec.user or f"all of {metadata.namespace}",
        "quiet": spec.quiet,
        "digest_s": _digest_s(spec.digest),
        "created_s": seconds_of(metadata.creation_timestamp),
        "pending": status.pending,
        "dropped": status.dropped,
        "trouble": status.message or None if status.phase != READY else None,
    }


def _digest_s(written: str) -> float:
    try:
        return seconds(written) if written else 0.0
    except ValueError:
        return 0.0


def _delivery_rows(rule: NotificationRuleObject) -> list[DeliveryRow]:
    """Return the messages of a rule: pending ones, and the last finished ones."""
    fields = _row_fields(rule)
    common = {
        "rule": fields["id"],
        "name": rule.metadata.key,
        "channel": fields["channel"],
        "target": fields["target"],
    }
    pending: DeliveryState = "pending"
    rows = [
        DeliveryRow(
            **common,
            id=number_of(delivery.key.removeprefix("msg_")),
            key=delivery.key,
            state=pending,
            attempts=delivery.attempts,
            made_s=seconds_of(delivery.made_at),
            due_s=seconds_of(delivery.due_at),
            size=len(delivery.notifications),
            about=delivery.notifications[0].sentence if delivery.notifications else "",
            error=delivery.error,
        )
        for delivery in reversed(rule.status.messages)
    ]
    for done in rule.status.deliveries:
        state: DeliveryState = "failed" if done.state == "failed" else "delivered"
        rows.append(
            DeliveryRow(
                **common,
                id=number_of(done.key.removeprefix("msg_")),
                key=done.key,
                state=state,
                attempts=done.attempts,
                made_s=seconds_of(done.made_at),
                done_s=seconds_of(done.done_at),
                size=done.size,
                about=done.about,
                error=done.error,
            )
        )
    return rows
