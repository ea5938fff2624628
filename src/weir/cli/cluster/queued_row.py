"""Rows of workloads that Weir doesn't know yet, made from new Jobs and pods."""

import time
from typing import TYPE_CHECKING

from weir.api.answers import Explanation, WorkloadDetail
from weir.api.submissions import Submission
from weir.api.workload_list import ArrayCounts
from weir.cli.cluster.lookup import LookupResult
from weir.cli.cluster.submission_job import gpus_of
from weir.kubernetes.api.object_numbers import at_s, workload_number
from weir.kubernetes.api.objects import ApiObject
from weir.model.array_indices import read_indices
from weir.model.workloads import DEFAULT_PRIORITY, PREEMPTIBLE_BELOW, WorkloadType

if TYPE_CHECKING:
    from weir.cli.cluster.queued_owner import QueuedOwner


def just_queued(workload: LookupResult, owner: "QueuedOwner | None" = None) -> WorkloadDetail:
    """Return the future workload of a Job or a pod; `owner` has the facts of its object."""
    assert workload.queued is not None
    metadata = workload.queued.metadata
    stated = metadata.labels.get("weir.dev/type", "")
    kind = next(
        (workload_type for workload_type in WorkloadType if workload_type.value == stated), WorkloadType.TRAIN
    )
    return WorkloadDetail(
        uid=workload_number(metadata.namespace, metadata.uid),
        name=workload.key,
        project=metadata.labels.get("weir.dev/project") or (owner.project if owner else "") or "-",
        user="",
        type=kind.value,
        status="pending",
        priority=DEFAULT_PRIORITY[kind],
        preemptible=True,
        devices=owner.gpus if owner else 0.0,
        pods=owner.pods if owner else 0,
        pods_running=0,
        submitted_s=at_s(metadata.creation_timestamp) or time.time(),
        reason=Explanation(why="suspended", sentence=owner.suspension)
        if owner and owner.suspension
        else None,
    )


def queued_row(submission: Submission, namespace: str, job: ApiObject) -> WorkloadDetail:
    """Return the workload that a new Job will become."""
    pods, array = submission.pods[0], None
    if submission.array is not None:
        array = ArrayCounts(written=submission.array, size=len(read_indices(submission.array)))
    priority = (
        DEFAULT_PRIORITY[WorkloadType(submission.type)]
        if submission.priority is None
        else submission.priority
    )
    return WorkloadDetail(
        uid=workload_number(namespace, job.metadata.uid),
        name=f"{namespace}/job-{job.metadata.name}",
        project=submission.project,
        user="",
        type=submission.type,
        status="pending",
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW
        if submission.preemptible is None
        else submission.preemptible,
        devices=gpus_of(pods),
        pods=pods.count * (1 if array is None else array.size),
        pods_running=0,
        array=array,
        submitted_s=at_s(job.metadata.creation_timestamp) or time.time(),
        command=submission.command,
    )
