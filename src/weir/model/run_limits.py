"""Longest run and stop grace of a workload, from its own request, its project and the policy.

The project's limit replaces the policy's limit for that type of workload. A workload may request a shorter
run, never a longer one. Its own stop grace holds up to `max_stop_grace`.
"""

from weir.model.policy import LifecyclePolicy
from weir.model.queues import QueueTimeLimits
from weir.model.workloads import Workload


def longest_run_s(spec: Workload, project: QueueTimeLimits, rules: LifecyclePolicy) -> float | None:
    """Return the maximum run time of a workload; None without one."""
    return least_limit(
        spec.max_runtime_s, rule_of(project.max_runtime_s, rules.max_runtime.for_type(spec.type))
    )


def stop_grace_s(spec: Workload, project: QueueTimeLimits, rules: LifecyclePolicy) -> float:
    """Return the time that a workload has between the notice and its end."""
    if spec.grace_s is not None:
        return min(spec.grace_s, rules.max_stop_grace)
    return rules.stop_grace if project.stop_grace_s is None else project.stop_grace_s


def rule_of(of_project: float | None, of_policy: float) -> float | None:
    """Return the rule of the project, else that of the policy; None if it is 0, no rule."""
    return (of_policy if of_project is None else of_project) or None


def least_limit(limit_s: float | None, rule: float | None) -> float | None:
    """Return the smaller of two limits; None or 0 is no limit."""
    limit_s = limit_s or None
    return min(limit_s, rule) if limit_s is not None and rule is not None else limit_s or rule
