"""Limits of a sweep of a cluster: all its trials are in the status of one object."""

from collections.abc import Iterator

from weir.api.sweep_submissions import SweepSubmission
from weir.kubernetes.crd.sweep_objects import STATUS_BYTES_MAX, TRIALS_MAX

_RESULT_BYTES, _TRIAL_BYTES = 130, 200


def beyond_object(plan: SweepSubmission) -> Iterator[tuple[str, str]]:
    """Yield the fields of a search that an object can't hold, each with a sentence that begins with it."""
    if plan.sampler == "cmaes":
        text = "sampler: cmaes keeps more about each trial than an object can hold; write tpe, gp or random"
        yield "sampler", text
    if plan.trials_max > TRIALS_MAX:
        text = (
            f"trials: a sweep of a cluster is one object, with {TRIALS_MAX:,} trials at most, and this has "
            f"{plan.trials_max:,}; write fewer"
        )
        yield "trials", text
        return
    size = plan.trials_max * _trial_bytes(plan)
    if size > STATUS_BYTES_MAX:
        fitting = STATUS_BYTES_MAX // _trial_bytes(plan)
        text = (
            f"trials: the results of {plan.trials_max:,} trials take up to {size:,} bytes, and an "
            f"object holds {STATUS_BYTES_MAX:,}; write at most {fitting:,}, or fewer parameters or rungs"
        )
        yield "trials", text


def _trial_bytes(plan: SweepSubmission) -> int:
    """Return the most bytes that a trial takes in the status."""
    params = sum(len(parameter.name) + parameter.length_max + 8 for parameter in plan.space())
    return _TRIAL_BYTES + params + _RESULT_BYTES * len(plan.rungs)
