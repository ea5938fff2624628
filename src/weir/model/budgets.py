"""Disruption budgets: how many pods of a set may be stopped at one time."""

from weir.model.record import record


@record()
class DisruptionBudget:
    """A budget by its name, and how many more of its pods may be stopped now.

    Pods that were told to stop are already subtracted.
    """

    name: str
    allowed: int
