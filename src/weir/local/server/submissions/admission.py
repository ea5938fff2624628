"""Admission checks of submissions: priority, size, time rules, and sessions in a browser.

Mistakes are noted with their fields. The checks need the pool: its projects, its policy and its nodes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir.api.submissions import Submission
from weir.engine.refusals.node_refusals import NodeRefusals, amount_phrase, sentence_of
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.http.problem_details import FieldErrors
from weir.local.server.state.pool_inventory import PoolInventory
from weir.local.starts.session_programs import VARIABLE
from weir.model.nodes import Node
from weir.model.policy import LifecyclePolicy
from weir.model.queues import Queue
from weir.model.resources import CPU, GPU, MEMORY, span
from weir.model.workloads import DEFAULT_PRIORITY, WHOLE_MILLI, Workload, WorkloadType
from weir.scenario_io.scalars import PRIORITY_MAX

DEFAULT_MAX_PRIORITY = max(DEFAULT_PRIORITY.values())
"""The highest priority of members where their project sets none: that of the most urgent type."""
_TEMPORARY = {"devices in use by others"}
"""Causes that pass without a change of the cluster: a workload with such a cause may be queued."""
_SESSION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}", re.ASCII)


def highest_priority(queue: Queue, person: Person) -> int:
    """Return the highest priority that a person may give a workload of a project."""
    if may(person, Action.EXCEED_LIMITS):
        return PRIORITY_MAX
    default = DEFAULT_MAX_PRIORITY if queue.max_priority is None else queue.max_priority
    return queue.max_priority_of.get(person.user, default)


def check_priority(workload: Workload, queue: Queue, person: Person, fields: FieldErrors) -> None:
    """Report a priority above the highest of this person in this project."""
    most = highest_priority(queue, person)
    if workload.priority > most:
        fields.add(
            ("priority",),
            f"priority: {workload.priority} is above {most}, the highest for {person.user} in project "
            f"{queue.name}; write {most} or less, or ask an administrator to raise it",
        )


def check_new_priority(workload: Workload, priority: int, inventory: PoolInventory, person: Person) -> None:
    """Check that a workload may get another priority.

    Raises:
        RequestRefused: the priority is above the highest of this person in the project.
    """
    fields = FieldErrors("The priority")
    check_priority(
        replace(workload, priority=priority), inventory.queues_by_name[workload.project], person, fields
    )
    fields.refuse_if_any()


def check_size(workload: Workload, nodes: Sequence[Node], fields: FieldErrors) -> None:
    """Report each group of pods that no node can take, and a gang that all nodes together can't."""
    fits = True
    for index, group in enumerate(workload.groups):
        refusals = NodeRefusals.of(nodes, group.request, ())
        if not refusals.able and not _TEMPORARY & refusals.by.keys():
            fits = False
            fields.add(
                ("pods", index), f"pods[{index}]: {sentence_of(refusals, nodes, group.request)}; ask for less"
            )
    if fits:
        _check_gang(workload, nodes, fields)


def _check_gang(workload: Workload, nodes: Sequence[Node], fields: FieldErrors) -> None:
    """Report the first resource of which the required pods request more than exists."""
    memory = min((node.gpu_memory for node in nodes if node.gpus), default=0)
    wanted = {GPU: 0, CPU: 0, MEMORY: 0}
    for group, needed in zip(workload.groups, workload.needed(), strict=True):
        request = group.request
        milli = request.devices * min(WHOLE_MILLI, request.share_on(memory)) if request.devices else 0
        for resource, amount in ((GPU, milli), (CPU, request.cpu_milli), (MEMORY, request.memory)):
            wanted[resource] += needed * amount
    available = {
        GPU: WHOLE_MILLI * sum(node.gpus for node in nodes),
        CPU: sum(node.capacity.get(CPU, 0) for node in nodes),
        MEMORY: sum(node.capacity.get(MEMORY, 0) for node in nodes),
    }
    for resource, want in wanted.items():
        if want > available[resource]:
            fields.add(
                ("pods",),
                f"pods: the workload needs {amount_phrase(resource, want)} at once; the pool has "
                f"{amount_phrase(resource, available[resource])}; ask for fewer or smaller pods",
            )
            return


def check_time_limits(
    submission: Submission, project: Queue, rules: LifecyclePolicy, fields: FieldErrors
) -> None:
    """Report each time that exceeds the rule for the workload."""
    type_, times = WorkloadType(submission.type), project.times
    limits = (
        ("max_runtime", submission.max_runtime, times.max_runtime_s, rules.max_runtime.for_type(type_)),
        ("idle_limit", submission.idle_limit, times.idle_limit_s, rules.idle_limit.for_type(type_)),
    )
    for key, asked_s, by_project_s, by_policy_s in limits:
        most_s = by_policy_s if by_project_s is None else by_project_s
        whose = "the policy" if by_project_s is None else f"project {project.name}"
        if asked_s is not None and 0 < most_s < asked_s:
            _too_long(key, asked_s, most_s, whose, fields)
    if submission.grace is not None and submission.grace > rules.max_stop_grace:
        _too_long("grace", submission.grace, rules.max_stop_grace, "the policy", fields)


def _too_long(key: str, asked_s: float, most_s: float, whose: str, fields: FieldErrors) -> None:
    most = span(most_s)
    text = f"{key}: {span(asked_s)} is more than the {most} that {whose} allows"
    fields.add((key,), f"{text}; write {most} or less, or leave it out")


def check_session(submission: Submission, fields: FieldErrors) -> None:
    """Report the mistakes of a submission that is to be a session in a browser."""
    if submission.session is None:
        return
    if submission.name is not None and _SESSION_NAME.fullmatch(submission.name) is None:
        right = "write letters, digits, dots, hyphens and underscores"
        fields.add(("name",), f"name: {submission.name} is a part of the address of its session; {right}")
    if submission.array is not None:
        fields.add(("session",), "session: indices of an array have none; leave one of them out")
    if sum(group.count for group in submission.pods) != 1:
        fields.add(("session",), "session: has one pod; leave out --workers, or write 1")


def session_variables(submission: Submission) -> Mapping[str, str]:
    """Return the variable that marks a session."""
    return {} if submission.session is None else {VARIABLE: submission.session}
