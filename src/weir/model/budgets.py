"""Disruption budgets: how many pods of a set may be stopped at one time."""

from weir.model.record import record


@record()
class DisruptionBudget:
    """A budget with its name, and the number of its pods that may still be stopped now.

    Pods with a notice to stop are already subtracted.
    """

    name: str
    allowed: int
