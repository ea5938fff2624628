"""Rules of sweeps besides the form of their fields."""

from weir.api.field_errors import FieldErrorList
from weir.api.sweep_submissions import SweepSubmission

NAME_LENGTH_MAX = 40
"""Trials are named after their sweep, and names of workloads are limited, too."""
_SINGLE = ("name", "array", "begin", "after", "after_ok", "after_not_ok", "after_any")
"""Fields of a workload that its trials can't share."""


def check_sweep(submission: SweepSubmission, fields: FieldErrorList) -> None:
    """Add the mistakes in the name of a sweep and the workload of its trials."""
    workload = submission.workload
    if submission.name is not None and len(submission.name) > NAME_LENGTH_MAX:
        text = f"name: is longer than {NAME_LENGTH_MAX} characters, and trials add to it; write a shorter one"
        fields.add(("name",), text)
    for key in _SINGLE:
        if getattr(workload, key):
            fields.add(
                ("workload", key), f"{key}: doesn't go with a sweep, whose trials differ; leave it out"
            )
    if workload.preemptible is False:
        text = "preemptible: trials of a sweep are preemptible; leave it out"
        fields.add(("workload", "preemptible"), text)
