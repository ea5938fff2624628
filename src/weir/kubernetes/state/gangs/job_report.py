"""Times that the pods of a workload report: its last checkpoint, and until when it is busy."""

from typing import NamedTuple

from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.crd.objects import WorkloadObject


class ReportedTimes(NamedTuple):
    """Times since the epoch; 0: never. The idle rules don't apply until `busy_until_s`."""

    checkpointed_s: float = 0.0
    busy_until_s: float = 0.0
    busy_why: str = ""


NO_REPORT = ReportedTimes()


def reported_times(workload_object: WorkloadObject | None, owner: str) -> ReportedTimes:
    """Return the times that a workload's object states, if the object is of this owner."""
    if workload_object is None or workload_object.spec.owner.uid != owner:
        return NO_REPORT
    report = workload_object.report
    return ReportedTimes(at_s(report.checkpointed_at) or 0.0, at_s(report.busy_until) or 0.0, report.busy_why)
