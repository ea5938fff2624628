"""Variables of a trial: its parameters, and the rungs of its sweep for `weir.report`."""

from collections.abc import Sequence

from weir.sweeps.parameters import SweepParameter, Values, variables


def target_variables(rungs: Sequence[int], target: int) -> dict[str, str]:
    """Return the variables that change when a trial is promoted."""
    return {"WEIR_SWEEP_RUNG": str(rungs[target])}


def trial_variables(
    space: Sequence[SweepParameter],
    params: Values,
    *,
    sweep: str,
    number: int,
    metric: str,
    rungs: Sequence[int],
    target: int = 0,
) -> dict[str, str]:
    """Return all variables of a trial that runs to a rung."""
    return {
        **variables(space, params),
        "WEIR_SWEEP": sweep,
        "WEIR_SWEEP_TRIAL": str(number),
        "WEIR_SWEEP_METRIC": metric,
        "WEIR_SWEEP_RUNGS": ",".join(map(str, rungs)),
        **target_variables(rungs, target),
    }
