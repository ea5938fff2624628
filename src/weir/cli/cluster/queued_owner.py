"""Jobs and pods without a Workload: their project, their size, and why a suspended Job has no pods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.cli.cluster.installation import InstallationView, read_installation
from weir.cli.cluster.lookup import LookupResult
from weir.cli.cluster.objects import ListedQueue
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.objects import KubePod, Metadata, PodSpec
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.translate.owner_suspensions import resumed_by
from weir.kubernetes.translate.requests import requested
from weir.model.workloads import WHOLE_MILLI

_DEFAULT_SCHEDULER = "default-scheduler"
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueuedOwner:
    """A Job or a pod that Weir doesn't know, as its object states it.

    `suspension` says why it has no pods; empty if it isn't suspended, or another scheduler places its pods.
    `other_scheduler` is the name of that one; empty for Weir. `running` pods of `active` ones run.
    """

    project: str
    gpus: float
    pods: int
    suspension: str = ""
    other_scheduler: str = ""
    scheduler: str = ""
    running: int = 0
    active: int = 0


async def read_queued_owner(api: ApiClient, home: str, workload: LookupResult) -> QueuedOwner:
    """Return the facts of a workload without a Workload object. `home` is Weir's namespace."""
    assert workload.queued is not None
    body = msgspec.to_builtins(workload.queued)
    spec, status = body["spec"], body["status"]
    template = spec.get("template")
    is_job = template is not None
    pod_spec = ((template.get("spec") or {}) if is_job else spec) or {}
    installed = await read_installation(api, home)
    labels = workload.queued.metadata.labels
    project = labels.get("weir.dev/project") or await _project_of(api, workload.namespace)
    gpus, pods = _gpus(pod_spec, installed), int(spec.get("parallelism", 1)) if is_job else 1
    named = str(pod_spec.get("schedulerName") or "")
    # Weir takes pods with GPUs in the namespace of a project, whose template names no scheduler
    is_taken = named in ("", installed.scheduler) or bool(named == _DEFAULT_SCHEDULER and project and gpus)
    suspension = ""
    if is_job and is_taken and spec.get("suspend") is True:
        suspension = await _suspension(api, workload, project)
    return QueuedOwner(
        project,
        gpus * pods,
        pods,
        suspension,
        "" if is_taken else named,
        installed.scheduler,
        int(status.get("ready") or 0) if is_job else int(status.get("phase") == "Running"),
        int(status.get("active") or 0) if is_job else 1,
    )


async def _project_of(api: ApiClient, namespace: str) -> str:
    """Return the only project of a namespace; empty if there are several, or they can't be read."""
    try:
        projects = await api.list_all(path_of(API_VERSION, "projects"), ListedQueue)
    except ApiRefused:
        return ""
    names = [
        project.metadata.name for project in projects if namespace in (project.spec.get("namespaces") or ())
    ]
    return names[0] if len(names) == 1 else ""


def _gpus(pod_spec: Object, installed: InstallationView) -> float:
    """Return the GPUs of a pod; 0 if its amounts can't be read."""
    devices = installed.devices
    try:
        amounts = requested(KubePod(Metadata(""), msgspec.convert(pod_spec, PodSpec)))
    except (ValueError, msgspec.ValidationError):
        return 0.0
    milli = [
        amount * devices.gpu_weight_milli(name) for name, amount in amounts.items() if devices.has_gpus(name)
    ]
    return float(sum(milli) / WHOLE_MILLI)


async def _suspension(api: ApiClient, workload: LookupResult, project: str) -> str:
    """Return the sentence about a Job that was suspended before it had pods, with the program that did it."""
    assert workload.owner is not None
    job = workload.owner.name
    try:
        manifest = await api.get(path_of("batch/v1", "jobs", workload.namespace, job), dict[str, Any])
    except ApiRefused:
        manifest = {}
    writer, resumer = _writer_of_suspend(manifest), resumed_by({**manifest, "kind": "Job"})
    by = f", as {writer} wrote it" if writer else ""
    queue = f"the queue of {project}" if project else "a queue"
    then = f"{resumer or f'`weir resume {workload.key}` resumes it'}, and then"
    return f"suspended: spec.suspend of Job {job} is true{by}, so it has no pods; {then} it enters {queue}"


def _writer_of_suspend(job: Object) -> str:
    """Return the field manager that wrote spec.suspend of a Job; empty if it is unknown."""
    managed = (job.get("metadata") or {}).get("managedFields") or ()
    writers = [
        writer for writer in managed if "f:suspend" in ((writer.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    if not writers:
        return ""
    return str(max(writers, key=lambda writer: str(writer.get("time", ""))).get("manager", ""))
