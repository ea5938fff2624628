"""Time rules of a submission against those of its project and policy: more than is allowed is refused."""

from weir.api.submissions import Submission
from weir.local.server.problem_details import FieldErrors
from weir.model.policy import LifecyclePolicy
from weir.model.queues import Queue
from weir.model.resources import span
from weir.model.workloads import WorkloadType


def check_time_limits(
    submission: Submission, project: Queue, rules: LifecyclePolicy, fields: FieldErrors
) -> None:
    """Tell of each time that is longer than the rule that holds for the workload."""
    type_, times = WorkloadType(submission.type), project.times
    limits = (
        ("max_runtime", submission.max_runtime, times.max_runtime_s, rules.max_runtime.of(type_)),
        ("idle_limit", submission.idle_limit, times.idle_limit_s, rules.idle_limit.of(type_)),
    )
    for key, asked_s, by_project_s, by_policy_s in limits:
        most_s = by_policy_s if by_project_s is None else by_project_s
        whose = "the policy" if by_project_s is None else f"project {project.name}"
        if asked_s is not None and 0 < most_s < asked_s:
            _too_long(key, asked_s, most_s, whose, fields)
    if submission.grace is not None and submission.grace > rules.stop_grace_most:
        _too_long("grace", submission.grace, rules.stop_grace_most, "the policy", fields)


def _too_long(key: str, asked_s: float, most_s: float, whose: str, fields: FieldErrors) -> None:
    most = span(most_s).replace(" ", "")
    text = f"{key}: {span(asked_s).replace(' ', '')} is more than the {most} that {whose} allows"
    fields.at((key,), f"{text}; write {most} or less, or leave it out")
