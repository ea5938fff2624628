"""Stated cost of stopping a trial: those that are the least likely to be promoted go first."""

PROSPECT_S, PROSPECTS_MAX = 600.0, 20
"""Lost work that each step in the order of the trials counts for, and the number of steps that count."""


def restart_cost_s(base_s: float, prospect: int, devices: float) -> float:
    """Return the cost of a stop in device seconds.

    `prospect` is the rank of a trial among those that promise least: 0 is stopped first.
    """
    return base_s + min(prospect, PROSPECTS_MAX) * PROSPECT_S * max(1.0, devices)
