"""`weir rerun` and `weir priority` on a cluster: a Job like one that is over, and the class of a Job."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import ValidationError

from weir.api.answers import WorkloadDetail
from weir.cli.cluster.errors import not_here, refused, wrong
from weir.cli.cluster.gang_addresses import GangAddresses, service_of, without_address
from weir.cli.cluster.lookup import JOBS, Lookup, LookupResult
from weir.cli.cluster.queued_row import just_queued
from weir.cli.cluster.submission_job import SubmissionJobs
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import AlreadyExists, NotFound
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import OwnerObject
from weir.kubernetes.translate.annotations import PREFIX
from weir.model.array_indices import split_name
from weir.model.workloads import PREEMPTIBLE_BELOW

Object = dict[str, Any]
RERUNS_MAX = 100
"""Names that are tried for a rerun Job."""
NAME_LENGTH_MAX = 53
"""Limit of a Job's name, so that the longer names of its pods fit, too."""
_NUMBERED = re.compile(r"(?P<name>.+?)(?:-r(?P<number>[1-9][0-9]{0,2}))?", re.ASCII)
_OF_CONTROLLER = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)
"""Labels that the controller of Jobs adds to the pods."""
_OF_ONE_RUN = ("idle-extended-until", "checkpointed-at", "user")
"""Annotations about the previous run."""
_KEPT_METADATA = ("labels", "annotations")
_CLASS = "priorityClassName"


class JobChanges:
    """Changes of the Jobs of one cluster."""

    def __init__(self, api: ApiClient, lookup: Lookup, jobs: SubmissionJobs) -> None:
        self._api, self._lookup, self._jobs = api, lookup, jobs

    async def rerun(self, name: str, params: Mapping[str, str]) -> WorkloadDetail:
        """Create a Job like one that is over. Its name is that of the former one with -r2, -r3 and so on.

        The former Job stays, and the output with it.

        Raises:
            PoolError: the workload isn't over, or isn't that of a single Job.
        """
        if "failed" in params or split_name(name) is not None:
            raise wrong(
                "a Job runs all of its indices again: submit some of them alone, such as --array 3,17"
            )
        workload, namespace, job = await self._job(
            name, "create it again: kubectl get -o yaml and kubectl create"
        )
        metadata = job["metadata"]
        conditions = (job.get("status") or {}).get("conditions") or ()
        if not any(
            condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
            for condition in conditions
        ):
            raise refused(409, f"{name} isn't over yet: stop it first, or submit it under another name.")
        owner = next(
            (reference for reference in metadata.get("ownerReferences", ()) if reference.get("controller")),
            None,
        )
        if owner is not None and owner["kind"] != "CronJob":
            raise not_here(f"{name} belongs to {owner['kind']} {owner['name']}, which makes its Jobs itself")
        if job["spec"].get("manualSelector"):
            raise not_here(f"{name} has a selector of its own (manualSelector): create it again with kubectl")
        if project := workload.row.get("project") or _labelled_project(job):
            await self._lookup.check_takes_work(project)
        has_addresses = service_of(job) is not None
        if has_addresses:
            job = without_address(job)
        addresses = GangAddresses(self._api)
        match = _NUMBERED.fullmatch(metadata["name"])
        assert match is not None, "a name has at least one letter"
        least = int(match["number"] or 1) + 1
        for number in range(least, least + RERUNS_MAX):
            suffix = f"-r{number}"
            new = f"{match['name'][: NAME_LENGTH_MAX - len(suffix)].rstrip('-.')}{suffix}"
            again = job_again(job, new)
            if has_addresses:
                again = await addresses.add_to(again, namespace)
            try:
                created = await addresses.create(again, namespace, OwnerObject)
            except AlreadyExists:
                continue
            return just_queued(LookupResult(namespace, f"job-{new}", {}, created))
        raise refused(409, f"{name} was run again {RERUNS_MAX} times: delete Jobs of former runs.")

    async def set_priority(self, name: str, body: bytes) -> bytes:
        """Give a workload another priority by an annotation of its Job, which names a PriorityClass.

        Raises:
            PoolError: the class doesn't exist, or the pods name a class themselves.
        """
        from weir.api.submissions import PriorityAsked

        wanted = msgspec.json.decode(body).get("priority")
        classes = {value: key for key, value in (await self._jobs.classes()).items()}
        if wanted not in classes:
            try:
                wanted = PriorityAsked.model_validate({"priority": wanted}).priority
            except ValidationError:
                wanted = None
            by_value = {value: key for key, value in classes.items()}
            if wanted not in by_value:
                available = ", ".join(f"{by_value[value]} ({value})" for value in sorted(by_value)) or "none"
                raise wrong(f"priority: no PriorityClass has this name or value; there are {available}")
            wanted = by_value[wanted]
        workload, namespace, job = await self._job(name, f"annotate it with {_CLASS}: {wanted}")
        stated = job["spec"]["template"]["spec"].get(_CLASS)
        if stated is not None and stated != wanted:
            raise not_here(
                f"the pods of {name} name the PriorityClass {stated}, which no pod can change: stop it, and "
                f"submit it again with --priority {classes[wanted]}"
            )
        annotations = {_CLASS: wanted, **_kept_preemptibility(workload, job, classes[wanted])}
        path = path_of(JOBS, "jobs", namespace, job["metadata"]["name"])
        await self._api.patch(path, {"metadata": {"annotations": annotations}}, Patch.MERGE, ApiObject)
        row = workload.row or just_queued(workload).model_dump(mode="json")
        return msgspec.json.encode({**row, "priority": classes[wanted]})

    async def _job(self, name: str, instead: str) -> tuple[LookupResult, str, Object]:
        """Return a workload, its namespace and its Job.

        Raises:
            PoolError: its pods aren't those of a Job, or the Job was deleted.
        """
        workload = await self._lookup.workload(name)
        try:
            owner = await self._lookup.owner(workload)
            if not owner.is_job:
                raise not_here(f"{workload.key} is made by a {owner.kind}: {instead}")
            path = path_of(JOBS, "jobs", workload.namespace, owner.name)
            job = await self._api.get(path, Object)
        except NotFound:
            raise refused(404, f"The Job of {workload.key} is gone: submit it again.") from None
        return workload, workload.namespace, job


def _labelled_project(job: Object) -> str | None:
    """Return the project that the labels of a Job or of its pods name; None if they name none."""
    of_pods = job["spec"]["template"].get("metadata") or {}
    labels = {**(of_pods.get("labels") or {}), **(job["metadata"].get("labels") or {})}
    project: str | None = labels.get(PREFIX + "project")
    return project


def job_again(job: Object, name: str) -> Object:
    """Return a new Job like another one, without the fields of the API server and controllers."""
    metadata = {key: dict(job["metadata"].get(key) or {}) for key in _KEPT_METADATA}
    for key in [
        *(PREFIX + suffix for suffix in _OF_ONE_RUN),
        "kubectl.kubernetes.io/last-applied-configuration",
    ]:
        metadata["annotations"].pop(key, None)
    spec = {key: value for key, value in job["spec"].items() if key not in ("selector", "suspend")}
    template = dict(spec["template"])
    of_pods = dict(template.get("metadata") or {})
    for labels in (metadata["labels"], made := dict(of_pods.get("labels") or {})):
        for key in _OF_CONTROLLER:
            labels.pop(key, None)
    template["metadata"] = {**of_pods, "labels": made}
    template["metadata"].pop("creationTimestamp", None)
    return {
        "apiVersion": JOBS,
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {**spec, "template": template},
    }


def _kept_preemptibility(workload: LookupResult, job: Object, priority: int) -> dict[str, str]:
    """Return the annotation that keeps the preemptibility of a workload, where its priority decides it."""
    key, metadata = f"{PREFIX}preemptible", job["metadata"]
    is_stated = any(key in (metadata.get(part) or {}) for part in _KEPT_METADATA)
    before = workload.row.get("preemptible")
    if is_stated or before is None or before == (priority < PREEMPTIBLE_BELOW):
        return {}
    return {key: str(before).lower()}
