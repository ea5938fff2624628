"""Times of the idle rules that apply to a workload, for people who look at it."""

from weir.api.workload_list import IdleRulesRow
from weir.control.idle_ladder import idle_rules
from weir.model.policy import LifecyclePolicy
from weir.model.queues import Queue, QueueTimeLimits
from weir.model.workloads import Workload


def idle_rules_row(
    spec: Workload, project: Queue | None, rules: LifecyclePolicy, *, can_suspend: bool = True
) -> IdleRulesRow | None:
    """Return the idle times after which the rules act on a workload; None if none does.

    `can_suspend`: Weir can suspend the workload. Without that, the rules neither suspend it nor end its
    protection.
    """
    if not any(group.request.devices for group in spec.groups):
        return None
    times = idle_rules(spec, QueueTimeLimits() if project is None else project.times, rules)
    first_s = times.first_notice_s
    if not can_suspend:
        times = times.without_suspensions()
    row = IdleRulesRow(
        notice_s=first_s,
        unprotect_s=times.unprotect_s,
        suspend_s=times.suspend_s,
        stop_s=times.stop_s,
    )
    return None if row == IdleRulesRow() else row
