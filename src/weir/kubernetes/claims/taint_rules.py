"""Rules that taint devices, in addition to the taints in slices.

A rule without a selector taints all devices, as for Kubernetes' own scheduler. Releases before 1.35 select
by class and expression, too. An expression without a value for a device selects the device, so that nothing
is placed on it by mistake.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weir.kubernetes.api.resource_objects import (
    DeviceClass,
    DeviceSelector,
    DeviceTaintRule,
    DeviceTaintSelector,
)
from weir.kubernetes.claims.cel.evaluator import StepMeter, selector
from weir.kubernetes.claims.cel.literals import CelSyntaxError
from weir.kubernetes.claims.cel.values import CelError
from weir.kubernetes.claims.devices import BLOCKING_EFFECTS, PoolDevice
from weir.kubernetes.claims.pools import ParsedSlice

_EVERYTHING = DeviceTaintSelector()


def may_taint(rule: DeviceTaintRule, parsed_slice: ParsedSlice) -> bool:
    """Return True if a rule may taint devices of a slice."""
    chosen = rule.spec.device_selector or _EVERYTHING
    return (
        rule.spec.taint.effect in BLOCKING_EFFECTS
        and chosen.driver in (None, parsed_slice.pool[0])
        and chosen.pool in (None, parsed_slice.pool[1])
    )


def tainted(
    parsed_slice: ParsedSlice, rules: Iterable[DeviceTaintRule], classes: Mapping[str, DeviceClass]
) -> ParsedSlice:
    """Return a slice whose devices have the taints of these rules, too."""
    concerned = [rule for rule in rules if may_taint(rule, parsed_slice)]
    if not concerned:
        return parsed_slice
    return replace(
        parsed_slice, devices=tuple(_tainted(device, concerned, classes) for device in parsed_slice.devices)
    )


def _tainted(
    device: PoolDevice, rules: Iterable[DeviceTaintRule], classes: Mapping[str, DeviceClass]
) -> PoolDevice:
    taints = [
        (rule.spec.taint.key, rule.spec.taint.value, rule.spec.taint.effect)
        for rule in rules
        if _selects(rule.spec.device_selector or _EVERYTHING, device, classes)
    ]
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def _selects(chosen: DeviceTaintSelector, device: PoolDevice, classes: Mapping[str, DeviceClass]) -> bool:
    if chosen.device not in (None, device.key[2]):
        return False
    selectors = chosen.selectors
    if chosen.device_class_name is not None:
        of_class = classes.get(chosen.device_class_name)
        if of_class is None:
            return False
        selectors = [*of_class.spec.selectors, *selectors]
    return all(_matches(condition, device) for condition in selectors)


def _matches(written: DeviceSelector, device: PoolDevice) -> bool:
    try:
        return written.cel is None or selector(written.cel.expression).matches(device.values, StepMeter())
    except (CelSyntaxError, CelError):
        return True
