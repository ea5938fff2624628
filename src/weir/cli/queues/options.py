"""Options of `weir project` and `weir department`, as fields of scenario files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from weir.cli.options.numbers import number_or_name, whole_number
from weir.cli.options.option_types import Repeated

PERSON_LIMITS = ("gpus", "running", "sessions", "pending", "max_runtime")
_CLASS = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
DEFAULTS = ("type", "priority", "preemptible", "gpus", "max_runtime", "grace")
_REMOVED = "none"
"""Value that removes a setting."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class QuotaOptions:
    """Quota of a project or a department."""

    gpus: str | None = None
    """Guaranteed GPUs: the same as --quota gpu=N."""
    quota: Repeated = ()
    """Guaranteed amount of a resource, such as gpu=4 or memory=256Gi. Repeat it for more resources."""
    limit: Repeated = ()
    """Upper bound on a resource, in the same form; gpu=unlimited for none."""
    weight: Repeated = ()
    """Share of idle capacity relative to its siblings; 0 for none."""
    priority: Annotated[int | None, whole_number()] = None
    """Order in which siblings get idle capacity: higher first."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Limits of the workloads of a project."""

    max_priority: Annotated[int | str | None, number_or_name()] = None
    """Highest priority that a member may give to a workload, such as 75 or high; 125 if not set."""
    max_priority_of: Repeated = ()
    """Highest priority for one person, such as mia=60; mia=none removes it. Repeat it for more people."""
    person_limit: Repeated = ()
    """Limit of each person in the project, such as gpus=4: gpus, running (workloads), sessions (build
    workloads), pending (workloads) or max-runtime; 0 for none. Repeat it for more limits."""
    person_limit_of: Repeated = ()
    """Limit of one person, such as mia:gpus=8. mia:gpus=none removes it, so that --person-limit holds, and
    mia=none removes all of that person. Repeat it for more limits and people."""
    max_runtime: str | None = None
    """End workloads after this run time, such as 24h; 0 for no limit."""
    idle_notice: str | None = None
    """Tell the owner of a workload when it was idle for this time; 0 for no notice of its own."""
    idle_unprotect: str | None = None
    """Let any request take the GPUs of a workload that was idle for this time; 0 for never."""
    idle_suspend: str | None = None
    """Suspend a workload, after two notices, when it was idle for this time; 0 for never."""
    idle_limit: str | None = None
    """End a workload, after two notices, when it was idle for this time; 0 for no limit."""
    lifetime: str | None = None
    """End build sessions after this time; 0 for no limit."""
    grace: str | None = None
    """Time that workloads have to stop after notice; 0 for no notice."""
    default: Repeated = ()
    """Default for a field that a submission leaves open, such as priority=low. Fields: type, priority,
    preemptible, gpus (of each pod), max-runtime or grace. The value none means the default of the pool.
    Repeat it for more defaults."""
    namespace: Annotated[Sequence[str], Parameter(name=("--namespace", "-n"), negative=())] = ()
    """On a cluster: a namespace of the project. Repeat it for more namespaces."""


def quota_fields(options: QuotaOptions) -> dict[str, Any]:
    """Return the given quota as fields of a scenario file.

    Raises:
        ValueError: an amount is invalid, or two options set the quota of GPUs.
    """
    fields: dict[str, Any] = {}
    for key, written in (("quota", options.quota), ("limit", options.limit), ("weight", options.weight)):
        amounts = dict(_amount(f"--{key}", text) for text in written)
        if amounts:
            fields[key] = amounts
    if options.gpus is not None:
        if "gpu" in fields.get("quota", {}):
            raise ValueError("--gpus and --quota gpu set the same quota: leave one out")
        fields["quota"] = {**fields.get("quota", {}), "gpu": options.gpus}
    if options.priority is not None:
        fields["priority"] = options.priority
    return fields


def limit_fields(options: LimitOptions) -> dict[str, Any]:
    """Return the given limits as fields of a scenario file.

    Raises:
        ValueError: a priority or a limit of a person is invalid.
    """
    times = {
        "max_runtime": options.max_runtime,
        "idle_notice": options.idle_notice,
        "idle_unprotect": options.idle_unprotect,
        "idle_suspend": options.idle_suspend,
        "idle_limit": options.idle_limit,
        "lifetime": options.lifetime,
        "stop_grace": options.grace,
    }
    stated: dict[str, Any] = {
        "max_priority_of": _priorities(options.max_priority_of),
        "person_limits": dict(_person_limit("--person-limit", limit) for limit in options.person_limit),
        "person_limits_of": _person_limits_of(options.person_limit_of),
        "defaults": dict(_default(default) for default in options.default),
        "times": {word: value for word, value in times.items() if value is not None},
        "max_priority": options.max_priority,
        "namespaces": list(options.namespace),
    }
    return {key: value for key, value in stated.items() if value not in (None, {}, [])}


def _priorities(written: Sequence[str]) -> dict[str, int | str | None]:
    """Return the highest priorities of people, from USER=PRIORITY; None to remove one."""
    priorities: dict[str, int | str | None] = {}
    for setting in written:
        user, _, value = setting.rpartition("=")
        is_number = value.removeprefix("-").isdecimal()
        if not user or not (is_number or _CLASS.fullmatch(value)):
            raise ValueError(
                f"--max-priority-of {setting!r} is no priority of a person: write one such as mia=60"
            )
        priorities[user] = None if value == _REMOVED else int(value) if is_number else value
    return priorities


def _person_limit(option: str, written: str) -> tuple[str, Any]:
    """Return a limit of a person as a field of scenario files, from NAME=VALUE; None to remove it."""
    name, _, value = written.partition("=")
    key = name.replace("-", "_")
    if key not in PERSON_LIMITS or not value:
        limit_names = ", ".join(PERSON_LIMITS).replace("_", "-")
        raise ValueError(f"{option} {written!r} is no limit of a person: write {limit_names}, such as gpus=4")
    return key, None if value == _REMOVED else int(value) if value.isdecimal() else value


def _default(written: str) -> tuple[str, Any]:
    """Return a default of a project as a field of scenario files, from NAME=VALUE."""
    name, _, value = written.partition("=")
    key = name.replace("-", "_")
    if key not in DEFAULTS or not value:
        default_names = ", ".join(DEFAULTS).replace("_", "-")
        raise ValueError(f"--default {written!r} is no default: write {default_names}, such as priority=low")
    if value == _REMOVED:
        return key, None
    if key == "preemptible":
        if value not in ("true", "false"):
            raise ValueError(f"--default {written!r} is neither preemptible=true nor preemptible=false")
        return key, value == "true"
    return key, int(value) if value.isdecimal() else value


def _person_limits_of(written: Sequence[str]) -> dict[str, dict[str, Any] | None]:
    """Return the limits of people, from USER:NAME=VALUE; None to remove all of one, from USER=none."""
    limits: dict[str, dict[str, Any] | None] = {}
    for setting in written:
        user, _, limit = setting.rpartition("=")
        if user and limit == _REMOVED and ":" not in user:
            limits[user] = None
            continue
        user, parted, limit = setting.rpartition(":")
        if not user or not parted:
            raise ValueError(f"--person-limit-of {setting!r} names no person: write one such as mia:gpus=8")
        key, value = _person_limit("--person-limit-of", limit)
        limits[user] = {**(limits.get(user) or {}), key: value}
    return limits


def _amount(option: str, written: str) -> tuple[str, str]:
    """Parse an amount such as `gpu=4` into resource and number; a bare `4` means GPUs."""
    name, parted, value = written.partition("=")
    if not parted:
        name, value = "gpu", written
    if not name or not value:
        raise ValueError(f"{option} {written!r} is no amount: write one such as gpu=4 or memory=256Gi")
    return name, value
