"""Schedules on a cluster: each is a CronJob whose Jobs are those that `weir submit` creates.

The cluster runs them: at which times, and beside an earlier run, is decided by its own controller.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import field
from pydantic import BaseModel

from weir.api.cron_times import check_schedule, extra_run_name, last_time, next_time, read_cron, read_zone
from weir.api.field_errors import read_model
from weir.api.schedules import Concurrency, ScheduleAsked, SchedulePage, ScheduleRow
from weir.cli.cluster.body_errors import BodyErrors
from weir.cli.cluster.errors import not_here, refused
from weir.cli.cluster.lookup import JOBS, Lookup
from weir.cli.cluster.namespaced_objects import NamespacedObjects, creator_of
from weir.cli.cluster.other_tools import instead_of
from weir.cli.cluster.submission_job import SubmissionJobs
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.api.objects import ApiObject, ApiStruct, Metadata
from weir.kubernetes.api.paths import path_of

PROJECT = "weir.dev/project"
"""Label of the CronJobs that are schedules."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", re.ASCII)
_MANUAL = "cronjob.kubernetes.io/instantiate"
"""Annotation of a Job that a person makes of a CronJob."""
_RUN_STEM_MAX = 48
"""Limit of characters of a schedule's name in the name of a run's Job, which has at most 63."""
_GONE_S, _LOOK_S = 60.0, 0.2
_POLICIES: dict[str, Concurrency] = {"Allow": "allow", "Forbid": "forbid", "Replace": "replace"}


class _CronSpec(ApiStruct):
    """The spec of a CronJob."""

    schedule: str = ""
    time_zone: str | None = None
    concurrency_policy: str = "Allow"
    suspend: bool | None = None
    job_template: dict[str, Any] = field(default_factory=dict)


class _RunReference(ApiStruct):
    """A Job of a CronJob that isn't over."""

    name: str = ""


class _CronStatus(ApiStruct):
    """The status of a CronJob."""

    active: list[_RunReference] = field(default_factory=list)
    last_schedule_time: str | None = None


class CronView(ApiStruct):
    """A CronJob."""

    metadata: Metadata
    spec: _CronSpec = field(default_factory=_CronSpec)
    status: _CronStatus = field(default_factory=_CronStatus)


class CronJobs:
    """Schedules of one cluster."""

    def __init__(self, api: ApiClient, lookup: Lookup, jobs: SubmissionJobs) -> None:
        self._api, self._lookup, self._jobs = api, lookup, jobs
        kind = (JOBS, "cronjobs", CronView)
        self._objects = NamespacedObjects(api, lookup, *kind, noun="schedule", selector=PROJECT)

    async def answer(self, method: str, parts: Sequence[str], body: bytes) -> BaseModel | None:
        """Return the answer to a request below /schedules; None for a deletion.

        Raises:
            PoolError: the request is invalid, or a cluster can't carry it out.
        """
        match method, list(parts):
            case "GET", []:
                rows = [_row(cron_job) for cron_job in await self._objects.all()]
                rows.sort(key=lambda row: row.name)
                return SchedulePage(total=len(rows), items=rows)
            case "GET", [name]:
                return _row(await self._objects.named(name))
            case "PUT", [name]:
                return await self._set(name, body)
            case "POST", [name, ("suspend" | "resume") as action]:
                return await self._suspend(name, suspended=action == "suspend")
            case "POST", [name, "run"]:
                return await self._run(name)
            case "DELETE", [name]:
                await self._remove((await self._objects.named(name)).metadata)
                return None
        raise not_here(instead_of(["schedules"]))

    async def _set(self, name: str, body: bytes) -> ScheduleRow:
        """Create or replace a CronJob."""
        errors = BodyErrors("The schedule")
        if not _NAME.fullmatch(name):
            text = (
                f"name: {name[:80]!r} is no name of a CronJob; write small letters, digits and dashes, "
                "at most 52"
            )
            errors.add(("name",), text)
        asked = read_model(ScheduleAsked, body, errors)
        check_schedule(asked, errors)
        errors.refuse_if_any()
        template = await self._jobs.template(asked.workload, msgspec.json.decode(body)["workload"])
        namespace = await self._lookup.namespace_for_work(asked.workload.project)
        spec = {
            "schedule": read_cron(asked.cron),
            "timeZone": asked.zone,
            "concurrencyPolicy": asked.concurrency.capitalize(),
            "suspend": asked.suspended,
            "jobTemplate": template,
        }
        return _row(await self._write(namespace, name, template["metadata"]["labels"], spec))

    async def _write(
        self, namespace: str, name: str, labels: dict[str, str], spec: dict[str, Any]
    ) -> CronView:
        path = self._objects.path(namespace, name)
        try:
            old = msgspec.json.decode(bytes(await self._api.get(path, msgspec.Raw)))
        except NotFound:
            made = {"apiVersion": JOBS, "kind": "CronJob", "metadata": {"name": name, "labels": labels}}
            return await self._api.post(self._objects.path(namespace), {**made, "spec": spec}, CronView)
        written = old["metadata"].get("labels", {})
        if PROJECT not in written:
            raise refused(
                409,
                f"There is a CronJob {name} in {namespace} that is no schedule: write another name, or "
                f"kubectl label -n {namespace} cronjob {name} {PROJECT}={labels[PROJECT]}",
            )
        metadata = {**old["metadata"], "labels": {**written, **labels}}
        return await self._api.put(path, {**old, "metadata": metadata, "spec": spec}, CronView)

    async def _remove(self, metadata: Metadata) -> None:
        """Delete a CronJob but not its Jobs, and wait until its name is free again.

        Raises:
            Refused: the cluster hasn't done it in time.
        """
        path = self._objects.path(metadata.namespace, metadata.name)
        await self._api.delete(path, uid=metadata.uid, propagation="Orphan")
        end_s = time.monotonic() + _GONE_S
        while time.monotonic() < end_s:
            try:
                if (await self._api.get(path, ApiObject)).metadata.uid != metadata.uid:
                    return
            except NotFound:
                return
            await asyncio.sleep(_LOOK_S)
        raise refused(
            503,
            f"The cluster is still removing {metadata.key} after {_GONE_S:g} s; it begins no more runs.",
        )

    async def _run(self, name: str) -> ScheduleRow:
        """Create a Job of a CronJob now, as `kubectl create job --from` does.

        Raises:
            Refused: an earlier run forbids another.
        """
        cron_job = await self._objects.named(name)
        metadata, spec, active = cron_job.metadata, cron_job.spec, cron_job.status.active
        if active and spec.concurrency_policy == "Forbid":
            earlier = f"{metadata.namespace}/job-{active[0].name}"
            raise refused(409, f"{earlier} isn't over, and this schedule forbids two runs at a time.")
        job = _job_of(cron_job, extra_run_name(metadata.name[:_RUN_STEM_MAX], UTC, time.time()))
        jobs = path_of(JOBS, "jobs", metadata.namespace)
        if spec.concurrency_policy == "Replace":
            for active_job in active:
                with suppress(NotFound):  # it has ended by itself
                    await self._api.delete(f"{jobs}/{active_job.name}", propagation="Background")
        made = await self._api.post(jobs, job, ApiObject)
        return _row(cron_job).model_copy(update={"last": f"{metadata.namespace}/job-{made.metadata.name}"})

    async def _suspend(self, name: str, *, suspended: bool) -> ScheduleRow:
        before = await self._objects.named(name)
        path = self._objects.path(before.metadata.namespace, before.metadata.name)
        await self._api.patch(path, {"spec": {"suspend": suspended}}, Patch.MERGE, ApiObject)
        row = _row(await self._api.get(path, CronView))
        missed_s = None if suspended or not before.spec.suspend else _missed(before)
        if missed_s is None:
            return row
        missed_time = datetime.fromtimestamp(missed_s, UTC)
        note = f"The run of {missed_time:%Y-%m-%d %H:%M} UTC was missed; the cluster begins it now."
        return row.model_copy(update={"said": note})


def _job_of(cron_job: CronView, name: str) -> dict[str, Any]:
    """Return the Job of a run on request."""
    metadata, template = cron_job.metadata, cron_job.spec.job_template
    of_template = template.get("metadata") or {}
    owner = {"apiVersion": JOBS, "kind": "CronJob", "name": metadata.name, "uid": metadata.uid}
    return {
        "apiVersion": JOBS,
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": of_template.get("labels") or {},
            "annotations": {**(of_template.get("annotations") or {}), _MANUAL: "manual"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": template.get("spec") or {},
    }


def _missed(cron_job: CronView) -> float | None:
    """Return the time of the newest run that a suspended CronJob has missed: the cluster catches it up.

    The answer is None if it missed none, or its times can't be read.
    """
    try:
        cron, zone = _times(cron_job)
    except ValueError:
        return None
    last_s = last_time(cron, zone, time.time())
    since = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    return last_s if last_s is not None and last_s > (at_s(since) or 0.0) else None


def _times(cron_job: CronView) -> tuple[str, Any]:
    """Return the cron expression and the zone of a CronJob.

    Raises:
        ValueError: they can't be read here.
    """
    return read_cron(cron_job.spec.schedule), read_zone(cron_job.spec.time_zone or "UTC")


def _row(cron_job: CronView) -> ScheduleRow:
    """Return the row of a schedule; unreadable times are reported in it."""
    metadata, spec, status = cron_job.metadata, cron_job.spec, cron_job.status
    next_s, note = None, ""
    try:
        cron, zone = _times(cron_job)
        next_s = None if spec.suspend else next_time(cron, zone, time.time())
    except ValueError as error:
        cron, note = spec.schedule, f"Its next time can't be read here: {error}"
    last_s = at_s(status.last_schedule_time)
    return ScheduleRow(
        name=metadata.key,
        project=metadata.labels.get(PROJECT, "-"),
        user=creator_of(spec.job_template),
        cron=cron,
        zone=spec.time_zone or "UTC",
        concurrency=_POLICIES.get(spec.concurrency_policy, "allow"),
        suspended=bool(spec.suspend),
        next_s=next_s,
        last_s=last_s,
        last=None if last_s is None else _run(metadata, last_s),
        said=note,
        active=[f"{metadata.namespace}/job-{job.name}" for job in status.active],
        command=_command(spec.job_template),
    )


def _run(metadata: Metadata, at_s: float) -> str:
    """Return the workload of the Job that the cluster's controller makes for a time."""
    return f"{metadata.namespace}/job-{metadata.name}-{int(at_s // 60)}"


def _command(template: dict[str, Any]) -> list[str]:
    try:
        words = template["spec"]["template"]["spec"]["containers"][0].get("command") or []
        return [str(word) for word in words]
    except (KeyError, IndexError, TypeError, AttributeError):
        return []
