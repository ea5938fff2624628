"""Settings of a scheduler from its `SchedulerConfig`, completely checked.

`spec.policy` is a policy file, and `spec.kinds` the list of a file of workload kinds. Missing keys have the
values of the options of `weir up`. The manifests contain no such object, so applying them again keeps the
settings of an administrator.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weir.kubernetes.crd.scheduler_settings import SchedulerSettings, WrittenSettings, with_written
from weir.kubernetes.crd.schemas import InvalidObject, read_spec
from weir.kubernetes.translate.kinds import load_kinds
from weir.model.scenario import InvalidFile
from weir.scenario_io.policies import parse_policy

PLURAL = "schedulerconfigs"
KIND = "SchedulerConfig"
TEXT_MAX = 256 << 10
"""Characters of a spec, as JSON."""
_KEYS = (
    "policy",
    "kinds",
    "deviceResources",
    "overcommitGrace",
    "shareMemory",
    "sharedNodes",
    "withoutProject",
    "scaleUpOverQuota",
    "usage",
    "sessionHeadroom",
)


def settings_of(spec: Mapping[str, Any], base: SchedulerSettings) -> SchedulerSettings:
    """Return the settings of a spec; settings that it leaves out are as in `base`.

    Raises:
        InvalidObject: the spec can't be used. The text tells everything that is wrong.
    """
    try:
        return _settings_of(spec, base)
    except InvalidFile as error:
        raise InvalidObject(
            "; ".join(_without_position(str(mistake)) for mistake in error.mistakes)
        ) from None
    except RecursionError:
        raise InvalidObject("the spec is nested too deeply: write at most some ten levels") from None


def _settings_of(spec: Mapping[str, Any], base: SchedulerSettings) -> SchedulerSettings:
    if len(json.dumps(spec)) > TEXT_MAX:
        raise InvalidObject(f"the spec is larger than {TEXT_MAX >> 10} KiB: write less")
    unknown = sorted(set(spec) - set(_KEYS))
    if unknown:
        known_keys = ", ".join(f"spec.{key}" for key in _KEYS[:-1])
        raise InvalidObject(f"spec.{unknown[0]} isn't known: write {known_keys} or spec.{_KEYS[-1]}")
    settings = base
    if spec.get("policy") is not None:
        settings = replace(settings, policy=parse_policy(json.dumps(spec["policy"]), "spec.policy"))
    if spec.get("kinds") is not None:
        kinds = json.dumps({"kinds": spec["kinds"]})
        load_kinds(kinds, "spec")
        settings = replace(settings, kinds=kinds)
    further = {key: value for key, value in spec.items() if key not in ("policy", "kinds")}
    try:
        return with_written(settings, read_spec(WrittenSettings, further))
    except InvalidObject:
        raise
    except ValueError as error:
        raise InvalidObject(str(error)) from None


def _without_position(mistake: str) -> str:
    """Return an error message without its position: the text that it counts in was made from the spec."""
    place, _, rest = mistake.partition(": ")
    head = place.partition(":")[0]
    return f"{head}: {rest}" if rest else mistake
