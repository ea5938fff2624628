"""Final ends of workloads: their pods are stopped with a condition that asks for no replacement.

Weir changes no owner. A Job with the failure policy of the webhook fails by the condition. Other owners may
replace their stopped pods, but new pods of an ended workload aren't placed.
"""

from weir.control.port import LifecycleCause, LifecycleRule, StopPod
from weir.kubernetes.admission.job_defaults import ENDED
from weir.kubernetes.writes.operations import PodCondition

_FOR_GOOD = {
    LifecycleRule.MAX_RUNTIME: "MaxRuntime",
    LifecycleRule.LIFETIME: "Lifetime",
    LifecycleRule.IDLE: "Idle",
    LifecycleRule.WITHDRAWN: "Withdrawn",
}


def ended(stop: StopPod) -> PodCondition | None:
    """Return the condition of a pod that stops for good with its whole workload; None for other stops."""
    cause = stop.cause
    if not isinstance(cause, LifecycleCause) or cause.rule not in _FOR_GOOD:
        return None
    return PodCondition(ENDED, _FOR_GOOD[cause.rule], cause.sentence)


def still_made(kind: str, sentence: str) -> str:
    """Return why pods of an ended workload, which its owner made nevertheless, stay pending."""
    goes_on = f"Its {kind} makes new pods. They aren't placed: delete the {kind}."
    return sentence if sentence.endswith(goes_on) else f"{sentence} {goes_on}"
