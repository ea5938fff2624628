"""Owners that are suspended or scaled to 0 before they have pods, and the commands that resume owners."""

import asyncio
from collections.abc import Iterable
from typing import Any

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import OwnerFields
from weir.kubernetes.translate.kind_table import KindRule, group_of
from weir.kubernetes.translate.kinds import load_kinds
from weir.kubernetes.translate.owner_commands import (
    kubectl,
    resume_command,
    stop_reason,
    suspending_field,
    suspension_command,
)
from weir.kubernetes.translate.owner_suspensions import resumed_by

_READ_BY_LOOKUP = ("Job", "Pod")
"""Kinds whose objects have a row without a Workload."""


async def stopped_owner(api: ApiClient, namespace: str, name: str) -> str:
    """Return why an object of this name has no pods, and its remedy, as a sentence; empty without one.

    `name` is that of the object, perhaps with its kind before it, as in the name of a workload.
    """
    served = await _groups(api)
    rules = {(rule.group, rule.kind): rule for rule in reversed(load_kinds().rules)}
    owners = await asyncio.gather(
        *(
            _read(api, rule, namespace, bare)
            for (group, kind), rule in rules.items()
            for bare in _bare_names(kind, name)
            if group in served and kind not in _READ_BY_LOOKUP
        )
    )
    for rule, body in owners:
        if body is not None and (reason := stop_reason(rule, body)):
            return _sentence(rule, body, reason)
    return ""


def suspension(owner: OwnerFields, namespace: str, *, suspend: bool) -> str:
    """Return the command that suspends or resumes an owner that isn't a Job."""
    group = group_of(owner.api_version)
    rules = (rule for rule in load_kinds().rules if (rule.group, rule.kind) == (group, owner.kind))
    steps = next((suspending_field(rule) for rule in rules), ())
    named = (namespace, owner.api_version, owner.kind, owner.name)
    return suspension_command(*named, steps, suspend=suspend) or kubectl("edit", *named)


async def _groups(api: ApiClient) -> set[str]:
    """Return the groups of APIs that the API server has."""
    try:
        listed = await api.get("/apis", dict[str, Any])
    except ApiRefused:
        return set()
    return {"", *(str(group["name"]) for group in listed["groups"])}


def _bare_names(kind: str, name: str) -> Iterable[str]:
    prefix = f"{kind.lower()}-"
    return (name, name.removeprefix(prefix)) if name.startswith(prefix) else (name,)


async def _read(
    api: ApiClient, rule: KindRule, namespace: str, name: str
) -> tuple[KindRule, dict[str, Any] | None]:
    """Return an object of an entry, in the first version that the API server has; None without one."""
    for version in rule.api:
        try:
            return rule, await api.get(path_of(version, rule.resource, namespace, name), dict[str, Any])
        except ApiRefused as error:
            if error.status not in (403, 404):
                raise
    return rule, None


def _sentence(rule: KindRule, body: dict[str, Any], reason: str) -> str:
    command, resumer = resume_command(rule, body), resumed_by(body)
    remedy = resumer or (f"`{command}` resumes it" if command else "resume it")
    return f"{body['kind']} {body['metadata']['name']} has no pods, since {reason}: {remedy}."
