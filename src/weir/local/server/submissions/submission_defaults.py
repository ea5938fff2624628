"""Defaults of a project for open fields of a submission: type, priority, GPUs, maximum run time and grace.

A default of priority, run or grace is never the cause of a refusal: it is cut to the most that its person may
ask for.
"""

from typing import Any

from weir.api.submissions import Submission
from weir.local.server.access.authorization import Person
from weir.local.server.submissions.admission import highest_priority
from weir.model.policy import LifecyclePolicy
from weir.model.queues import Queue
from weir.model.run_limits import rule_of
from weir.model.workloads import WorkloadType

_OF_GPUS = {"gpus", "devices", "gpu_memory"}


def with_project_defaults(
    submission: Submission, project: Queue, rules: LifecyclePolicy, person: Person
) -> Submission:
    """Return a submission with the defaults of its project in its open fields."""
    defaults = project.defaults
    changes: dict[str, Any] = {}
    if defaults.type is not None and "type" not in submission.model_fields_set:
        changes["type"] = defaults.type.value
    if defaults.priority is not None and submission.priority is None:
        changes["priority"] = min(defaults.priority, highest_priority(project, person))
    if defaults.preemptible is not None and submission.preemptible is None:
        changes["preemptible"] = defaults.preemptible
    if defaults.max_runtime_s is not None and submission.max_runtime is None:
        type_ = WorkloadType(changes.get("type", submission.type))
        most = (
            rule_of(project.times.max_runtime_s, rules.max_runtime.for_type(type_)),
            project.limits_of(person.user).max_runtime_s,
        )
        changes["max_runtime"] = min([defaults.max_runtime_s, *[limit for limit in most if limit]])
    if defaults.grace_s is not None and submission.grace is None:
        changes["grace"] = min(defaults.grace_s, rules.max_stop_grace)
    if defaults.gpus_milli is not None and not any(
        _OF_GPUS & pods.model_fields_set for pods in submission.pods
    ):
        gpus = {"gpus": defaults.gpus_milli}
        changes["pods"] = [pods.model_copy(update=gpus) for pods in submission.pods]
    return submission.model_copy(update=changes) if changes else submission
