"""Create and change projects and departments."""

import sys
from collections.abc import Callable
from functools import partial
from http.client import CONFLICT
from typing import TYPE_CHECKING, Any, Literal

from weir.cli.options.mistakes import WrongOption, option_mistakes, refusals_in
from weir.cli.options.refusals import named, queue_options
from weir.cli.output.formatting import number
from weir.cli.pool.connect import connect
from weir.cli.queues.options import LimitOptions, QuotaOptions, limit_fields, quota_fields
from weir.client.errors import Refused

if TYPE_CHECKING:
    from weir.api.answers import QueueDetail, QueueRow
    from weir.client.api import Pool

_TRIES = 5
Kind = Literal["project", "department"]


def _merged(row: "QueueRow", words: dict[str, Any]) -> dict[str, Any]:
    """Return the queue's present fields with the given ones replaced."""
    before: dict[str, Any] = {
        key: {name: int(value) if value == int(value) else value for name, value in amounts.items()}
        for key, amounts in (("quota", row.quota), ("limit", row.limit), ("weight", row.weight))
    }
    if row.follows:
        before["quota"].pop("gpu", None)
    after: dict[str, Any] = {**before, "priority": row.priority, "times": dict(row.times)}
    if row.max_priority is not None:
        after["max_priority"] = row.max_priority
    if row.kind == "project":
        after["max_priority_of"] = dict(row.max_priority_of)
        after["person_limits"] = row.person_limits.model_dump(exclude_none=True)
        after["person_limits_of"] = {
            user: limits.model_dump(exclude_none=True) for user, limits in row.person_limits_of.items()
        }
        after["defaults"] = row.defaults.model_dump(exclude_none=True)
    if row.parent is not None:
        after["department" if row.kind == "project" else "parent"] = row.parent
    of_people = words.get("person_limits_of", {})
    merged = {
        user: limits and {**after["person_limits_of"].get(user, {}), **limits}
        for user, limits in of_people.items()
    }
    for key, value in {**words, **({"person_limits_of": merged} if merged else {})}.items():
        after[key] = {**after[key], **value} if isinstance(value, dict) else value
    return {key: value for key, value in _kept(after).items() if value not in ({}, "")}


def _kept(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without the limits of people that are to be removed, which are None."""
    kept = dict(fields)
    if "person_limits_of" in kept:
        people = {user: _stated(limits or {}) for user, limits in kept["person_limits_of"].items()}
        kept["person_limits_of"] = {user: limits for user, limits in people.items() if limits}
    for key in ("person_limits", "max_priority_of"):
        if key in kept:
            kept[key] = _stated(kept[key])
    return kept


def _stated(limits: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in limits.items() if value is not None}


def put(
    kind: Kind,
    name: str,
    above: str | None,
    quota: QuotaOptions,
    limits: LimitOptions | None = None,
    *,
    new: bool,
) -> int:
    """Create or change a queue. `above` is its parent."""
    from weir.api.answers import NEW_QUEUE

    with option_mistakes():
        fields = quota_fields(quota) | ({} if limits is None else limit_fields(limits))
    if above is not None:
        fields["department" if kind == "project" else "parent"] = above
    if not new and not fields:
        raise WrongOption(f"nothing to change: write an option, as in `weir {kind} set {name} --gpus 4`")
    with (
        connect() as pool,
        named(name="NAME"),
        refusals_in(partial(queue_options, gpus=quota.gpus is not None)),
    ):
        get, put = (
            (pool.project, pool.set_project) if kind == "project" else (pool.department, pool.set_department)
        )
        try:
            row = get(name)
        except Refused as refused:
            if refused.status != 404:
                raise
            if not new:
                raise WrongOption(_not_there(pool, kind, name)) from None
            stated = {key: value for key, value in _kept(fields).items() if value != ""}
            done = put(name, version=NEW_QUEUE, **stated)
        else:
            if new:
                raise WrongOption(f"There is a {kind} {name} already: `weir {kind} set {name}` changes it")
            done = _changed(get, put, row, fields)
    print(f"{kind.capitalize()} {name} {'is made' if new else 'is set'}: {_summary(done)}.")
    for warning in done.warnings:
        print(f"weir: warning: {warning}", file=sys.stderr)
    return 0


def _changed(
    get: "Callable[[str], QueueDetail]",
    put: "Callable[..., QueueDetail]",
    row: "QueueDetail",
    words: dict[str, Any],
) -> "QueueDetail":
    """Change a queue, and return it. If others change it meanwhile, the change is made to theirs."""
    for left in reversed(range(_TRIES)):
        try:
            return put(row.name, version=row.version, **_merged(row, words))
        except Refused as refused:
            if refused.status != CONFLICT or not left:
                raise
            newer = get(row.name)
            if newer.version == row.version:
                raise
            row = newer
    raise AssertionError("the last attempt returns or raises")


def _not_there(pool: "Pool", kind: Kind, name: str) -> str:
    """Return the sentence about a queue that doesn't exist, or is of the other type."""
    other: Kind = "department" if kind == "project" else "project"
    others = pool.departments() if kind == "project" else pool.projects()
    if any(row.name == name for row in others):
        return f"{name} is a {other}: `weir {other} set {name}` changes it"
    return f"There is no {kind} {name}: `weir {kind} create {name}` makes it"


def _summary(row: "QueueRow") -> str:
    gpus = row.quota.get("gpu")
    quota = "no quota of GPUs" if gpus is None else f"{number(gpus)} GPU{'' if gpus == 1 else 's'} guaranteed"
    if row.follows:
        quota += " (the sum of its projects)"
    limit = f", at most {number(row.limit['gpu'])}" if "gpu" in row.limit else ""
    return f"{quota}{limit}" + (f", in {row.parent}" if row.parent else "")
