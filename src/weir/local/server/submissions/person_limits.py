"""Limits of a person in a project at submission: work that could never start, run time and pending work."""

from collections.abc import Sequence
from dataclasses import replace

from weir.api.submissions import Submission
from weir.local.server.http.problem_details import FieldErrors
from weir.model.nodes import Node
from weir.model.policy import LifecyclePolicy
from weir.model.queues import PersonLimits, Queue
from weir.model.resources import span, written
from weir.model.workloads import WHOLE_MILLI, Workload


def check_run_time(submission: Submission, project: Queue, user: str, fields: FieldErrors) -> None:
    """Report a run time above the maximum of this person in this project."""
    most_s, asked_s = project.limits_of(user).max_runtime_s, submission.max_runtime
    if asked_s is not None and most_s and asked_s > most_s:
        most = span(most_s)
        fields.add(
            ("max_runtime",),
            f"max_runtime: {span(asked_s)} is above {most}, the maximum run time of {user} "
            f"in project {project.name}; write {most} or less, or leave it out",
        )


def limited_workload(
    workload: Workload, project: Queue, rules: LifecyclePolicy, nodes: Sequence[Node], fields: FieldErrors
) -> Workload:
    """Return a workload with the maximum run time of its person; report one that exceeds their limits."""
    _check_whole_size(workload, project, nodes, fields)
    most_s = project.limits_of(workload.user).max_runtime_s
    if workload.max_runtime_s is not None or not most_s:
        return workload
    by_project_s = project.times.max_runtime_s
    by_rule_s = rules.max_runtime.for_type(workload.type) if by_project_s is None else by_project_s
    return replace(workload, max_runtime_s=min(most_s, by_rule_s) if by_rule_s else most_s)


def _check_whole_size(workload: Workload, project: Queue, nodes: Sequence[Node], fields: FieldErrors) -> None:
    """Report a workload whose pods together request more GPUs than its person may ever use at once."""
    most = project.limits_of(workload.user).gpus_milli
    memory = min((node.gpu_memory for node in nodes if node.gpus), default=0)
    want = sum(
        group.count * group.request.devices * min(WHOLE_MILLI, group.request.share_on(memory))
        for group in workload.groups
        if group.request.devices
    )
    if most and want > most:
        fields.add(
            ("pods",),
            f"pods: the workload asks for {written('gpu', want)} GPUs in all, and {workload.user} may use "
            f"{written('gpu', most)} at once in project {project.name}; ask for that or less",
        )


def pending_sentence(limits: PersonLimits, project: str, pending: int, number: int) -> str | None:
    """Return why a person may not submit this number of workloads; None if they may."""
    most = limits.pending
    if not most or pending + number <= most:
        return None
    return (
        f"You have {pending:,} pending workloads in project {project}, and one person may have {most:,}"
        f"{more_sentence(number)}: stop some, or wait until some have started."
    )


def more_sentence(number: int) -> str:
    """Return the number of workloads of a request as the end of a clause; empty for one workload."""
    return f"; these are {number:,} more" if number > 1 else ""
