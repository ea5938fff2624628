"""Variables by which the pods of a gang find each other, and the Service that gives them addresses.

The pods of an Indexed Job have stable host names: `JOB-INDEX`. A headless Service makes DNS answer for them.
It belongs to the Job, so the garbage collector deletes it after the Job. The Job is created first, suspended,
since its uid is part of the Service; it starts when the Service exists.
"""

import sys
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Protocol, TypeVar

from weir.api.name_endings import random_ending
from weir.cli.cluster.errors import refused
from weir.cli.cluster.lookup import JOBS
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import ApiError, ApiRefused, NotFound
from weir.kubernetes.api.objects import ApiObject, Metadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.translate.annotations import PREFIX

Body = dict[str, Any]
PORT = 29500
"""Port of the rendezvous. Each pod has its own network address, so all gangs can use the same port."""
_JOB_NAME = "batch.kubernetes.io/job-name"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_REFUSALS = (400, 403, 422)
"""Refusals of the Service itself: by rights, quotas, policies and webhooks."""


class _CreatedObject(Protocol):
    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound=_CreatedObject)


class GangAddresses:
    """Add variables to the gangs of one command, and create their Services, with the rights of the person."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._allowed: dict[str, bool] = {}

    async def add_to(self, job: Body, namespace: str) -> Body:
        """Return a new Job with the variables of a gang; the same Job if it isn't one of a fixed size.

        Without the right to create Services the Job stays as it is, and a warning names the right: some
        frameworks fail with a part of the variables.

        Raises:
            ApiError: the API server doesn't answer.
        """
        if not _is_fixed_gang(job):
            return job
        if "MASTER_ADDR" in _variables(job):
            return _with_variables(job, None)
        if not await self._may_create(namespace):
            return job
        return _with_variables(job, _service_name(job["metadata"]["name"]))

    async def create(self, job: Body, namespace: str, kind: type[T]) -> T:
        """Create a Job; that of a gang is suspended until its Service exists.

        Raises:
            ApiError: the API server refuses one of them, and neither is left.
            Refused: the Job may be left, suspended.
        """
        path = path_of(JOBS, "jobs", namespace)
        if service_of(job) is None:
            return await self._api.post(path, job, kind)
        created = await self._api.post(path, {**job, "spec": {**job["spec"], "suspend": True}}, kind)
        own = path_of(JOBS, "jobs", namespace, created.metadata.name)
        try:
            await self.create_service(job, namespace, created.metadata)
            await self._api.patch(own, {"spec": {"suspend": False}}, Patch.MERGE, ApiObject)
        except BaseException as error:
            await self._remove(own, created.metadata, error)
            raise
        return created

    async def create_service(self, job: Body, namespace: str, created: Metadata) -> None:
        """Create the Service of a Job that was created, if its pods have addresses."""
        service = service_of(job)
        if service is None:
            return
        owner = {"apiVersion": JOBS, "kind": "Job", "name": created.name, "uid": created.uid}
        service["metadata"]["ownerReferences"] = [owner]
        await self._api.post(path_of("v1", "services", namespace), service, ApiObject)

    async def _remove(self, path: str, created: Metadata, why: BaseException) -> None:
        try:
            await self._api.delete(path, uid=created.uid, propagation="Background")
        except NotFound:
            return
        except ApiError:
            text = f"{str(why).rstrip('.')}. The Job {created.name} may be left: `weir stop {created.name}`."
            raise refused(500, text) from None

    async def _may_create(self, namespace: str) -> bool:
        """Return True if the API server accepts a Service of the person; warn once if it doesn't."""
        if namespace not in self._allowed:
            trial = _service(f"gang-{random_ending()}", "gang")
            path = path_of("v1", "services", namespace)
            try:
                await self._api.post(path, trial, ApiObject, query={"dryRun": "All"})
                self._allowed[namespace] = True
            except ApiRefused as error:
                if error.status not in _REFUSALS:
                    raise
                self._allowed[namespace] = False
                print(f"weir: warning: {_missing(error, namespace)}", file=sys.stderr)
        return self._allowed[namespace]


def service_of(job: Mapping[str, Any]) -> Body | None:
    """Return the Service that the pods of a Job have addresses of; None if they have none from Weir."""
    name = job["metadata"]["name"]
    subdomain = job["spec"]["template"]["spec"].get("subdomain")
    if not subdomain or _variables(job).get("MASTER_ADDR") != f"{name}-0.{subdomain}":
        return None
    return _service(subdomain, name)


def without_address(job: Body) -> Body:
    """Return a copy of a Job without the address that is derived from its name."""
    job = deepcopy(job)
    pod = job["spec"]["template"]["spec"]
    del pod["subdomain"]
    container = pod["containers"][0]
    container["env"] = [variable for variable in container["env"] if variable["name"] != "MASTER_ADDR"]
    return job


def _is_fixed_gang(job: Mapping[str, Any]) -> bool:
    """Return True if all pods of a Job start together. Those of arrays and elastic Jobs don't."""
    spec, annotations = job["spec"], job["metadata"].get("annotations") or {}
    pods = spec.get("completions") or 0
    least = annotations.get(f"{PREFIX}min-pods", str(pods))
    return pods > 1 and spec.get("completionMode") == "Indexed" and least == str(pods)


def _with_variables(job: Body, subdomain: str | None) -> Body:
    """Return a Job with the variables of a gang; stated variables are kept."""
    job = deepcopy(job)
    pod, name = job["spec"]["template"]["spec"], job["metadata"]["name"]
    index = {"valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
    fixed = {
        "WORLD_SIZE": str(job["spec"]["completions"]),
        "LOCAL_RANK": "0",  # each pod sees its own devices only, counted from 0
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_PORT": str(PORT),
    }
    if subdomain is not None:
        pod["subdomain"] = subdomain
        fixed["MASTER_ADDR"] = f"{name}-0.{subdomain}"
    variables: dict[str, Body] = {key: {"value": value} for key, value in fixed.items()}
    variables |= {"RANK": index, "NODE_RANK": index}
    stated = _variables(job)
    container = pod["containers"][0]
    container["env"] = [
        *container.get("env", ()),
        *({"name": key, **value} for key, value in variables.items() if key not in stated),
    ]
    return job


def _variables(job: Mapping[str, Any]) -> dict[str, str | None]:
    containers = job["spec"]["template"]["spec"].get("containers")
    return {
        variable["name"]: variable.get("value")
        for variable in (containers[0].get("env") if containers else ()) or ()
    }


def _service(name: str, job: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # the pods look for each other before they are ready
            "selector": {_JOB_NAME: job},
        },
    }


def _service_name(job: str) -> str:
    """Return a new name, because the Service of a former Job of this name may still exist."""
    return f"{'' if job[0].isalpha() else 'job-'}{job}-{random_ending()}"


def _missing(error: ApiRefused, namespace: str) -> str:
    without = "the pods of a gang get no RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    if "cannot create resource" in error.message:
        return f"{without}: you lack the right `create` on `services` in the namespace {namespace}."
    return f"{without}: the API server refuses their Service: {error.message.rstrip('.')}."
