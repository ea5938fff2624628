"""Sweeps on a cluster: each is a `Sweep` object, whose trials Weir runs as Jobs."""

import asyncio
import re
from collections.abc import Mapping, Sequence

import msgspec
from pydantic import BaseModel

from weir.api.comma_lists import comma_words
from weir.api.field_errors import read_model
from weir.api.name_endings import random_ending
from weir.api.submissions import Submission
from weir.api.sweep_rules import check_sweep
from weir.api.sweep_submissions import SweepSubmission
from weir.api.sweeps import SweepDeleted, SweepDetail, SweepPage
from weir.cli.cluster.body_errors import BodyErrors
from weir.cli.cluster.errors import not_here, refused, wrong
from weir.cli.cluster.lookup import JOBS, Lookup
from weir.cli.cluster.namespaced_objects import NamespacedObjects
from weir.cli.cluster.other_tools import instead_of
from weir.cli.cluster.submission_job import SubmissionJobs, gpus_of
from weir.cli.cluster.sweep_rows import sweep_detail, sweep_row
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import AlreadyExists, ApiRefused, NotFound
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION, camel
from weir.kubernetes.crd.sweep_objects import KIND, PLURAL, SweepObject
from weir.kubernetes.sweeps.object_limits import beyond_object
from weir.kubernetes.sweeps.observed_jobs import TrialObject
from weir.kubernetes.sweeps.trial_jobs import SWEEP_LABEL, checkpoint_path
from weir.model.workloads import DEFAULT_PRIORITY, PREEMPTIBLE_BELOW, WorkloadType

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_OWN = (
    *("params", "trials", "rungs", "eta", "metric", "mode"),
    *("sampler", "seed", "parallel", "arguments", "checkpoint_claim"),
)


class ClusterSweeps:
    """Sweeps of one cluster."""

    def __init__(self, api: ApiClient, lookup: Lookup, jobs: SubmissionJobs) -> None:
        self._api, self._lookup, self._jobs = api, lookup, jobs
        self._objects = NamespacedObjects(api, lookup, API_VERSION, PLURAL, SweepObject, noun="sweep")

    async def answer(
        self, method: str, parts: Sequence[str], params: Mapping[str, str], body: bytes
    ) -> BaseModel:
        """Return the answer to a request below /sweeps.

        Raises:
            PoolError: the request is invalid, or a cluster can't carry it out.
        """
        match method, list(parts):
            case "GET", []:
                projects, sweeps = comma_words(params.get("project")), await self._objects.all()
                if projects:
                    sweeps = [sweep for sweep in sweeps if sweep.spec.project in projects]
                sweeps.sort(key=lambda sweep: sweep.metadata.creation_timestamp or "", reverse=True)
                live = {sweep.metadata.namespace for sweep in sweeps if sweep.status.ended_at is None}
                ready = dict(zip(live, await asyncio.gather(*map(self._ready, live)), strict=True))
                items = [sweep_row(sweep, ready.get(sweep.metadata.namespace, set())) for sweep in sweeps]
                return SweepPage(total=len(sweeps), items=items)
            case "POST", []:
                return await self._begin(body)
            case "GET", [name]:
                return await self._detail(await self._objects.named(name))
            case "POST", [name, "stop"]:
                found_one = await self._objects.named(name)
                if found_one.status.ended_at is not None:
                    raise refused(409, f"Sweep {name[:80]} is over already.")
                path = self._objects.path(found_one.metadata.namespace, found_one.metadata.name)
                change = {"spec": {"stop": True}}
                return await self._detail(await self._api.patch(path, change, Patch.MERGE, SweepObject))
            case "DELETE", [name]:
                return await self._delete(await self._objects.named(name), params)
        raise not_here(instead_of(["sweeps", *parts]))

    async def _delete(self, sweep: SweepObject, params: Mapping[str, str]) -> SweepDeleted:
        """Delete a sweep that is over, with its Jobs.

        Raises:
            Refused: the sweep isn't over, or the request includes its checkpoints.
        """
        claim, metadata = sweep.spec.checkpoint_claim, sweep.metadata
        if params.get("checkpoints") == "true" and claim:
            raise wrong(
                f"checkpoints: they are files of the PersistentVolumeClaim {claim}; leave the option out, "
                f"and delete its directory {checkpoint_path(sweep)} in a pod"
            )
        if sweep.status.ended_at is None:
            text = f"Sweep {metadata.key} isn't over: stop it first with `weir sweep stop {metadata.key}`."
            raise refused(409, text)
        path = self._objects.path(metadata.namespace, metadata.name)
        await self._api.delete(path, uid=metadata.uid, propagation="Background")
        trials = len(sweep.status.trials)
        kept = trials if claim else 0
        return SweepDeleted(name=metadata.key, trials=trials, checkpoints_deleted=0, checkpoints_kept=kept)

    async def _detail(self, sweep: SweepObject) -> SweepDetail:
        """Return a sweep with its trials; those whose pods are ready run."""
        selector = f"{SWEEP_LABEL}={sweep.metadata.name}"
        return sweep_detail(sweep, await self._ready(sweep.metadata.namespace, selector))

    async def _ready(self, namespace: str, selector: str = SWEEP_LABEL) -> set[str]:
        """Return the Jobs of trials whose pods are ready; none without the right to list Jobs."""
        path = path_of(JOBS, "jobs", namespace)
        try:
            jobs = await self._api.list_all(path, TrialObject, label_selector=selector)
        except ApiRefused as error:
            if error.status != 403:
                raise
            return set()
        return {job.metadata.name for job in jobs if job.status.ready}

    async def _begin(self, body: bytes) -> SweepDetail:
        """Create a Sweep."""
        errors = BodyErrors("The sweep")
        submission = read_model(SweepSubmission, body, errors)
        check_sweep(submission, errors)
        _check(submission, errors)
        errors.refuse_if_any()
        namespace = await self._lookup.namespace_for_work(submission.workload.project)
        written = msgspec.json.decode(body)["workload"]
        nameless = submission.workload.model_copy(update={"name": None})
        template = await self._jobs.template(nameless, written)
        if submission.checkpoint_claim is not None:
            await self._check_claim(namespace, submission.checkpoint_claim)
        stated = {key: getattr(submission, key) for key in _OWN}
        name = submission.name or f"sweep-{random_ending()}"
        sweep = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "labels": template["metadata"]["labels"]},
            "spec": {
                **{camel(key): value for key, value in stated.items() if value is not None},
                "project": submission.workload.project,
                "gpus": f"{gpus_of(submission.workload.pods[0]):g}",
                "jobTemplate": template,
            },
        }
        try:
            made = await self._api.post(self._objects.path(namespace), sweep, SweepObject)
        except AlreadyExists:
            text = f"There is a sweep called {name} in {namespace} already: write another name."
            raise refused(409, text) from None
        return sweep_detail(made, set())

    async def _check_claim(self, namespace: str, claim: str) -> None:
        """Check that a PersistentVolumeClaim for checkpoints exists.

        Raises:
            Refused: it doesn't exist.
        """
        try:
            path = path_of("v1", "persistentvolumeclaims", namespace, claim)
            await self._api.get(path, ApiObject)
        except NotFound:
            text = (
                f"checkpoint_claim: there is no PersistentVolumeClaim {claim} in {namespace}; "
                "create it, or leave it out"
            )
            raise refused(422, text) from None


def _check(submission: SweepSubmission, errors: BodyErrors) -> None:
    """Add the mistakes that only a cluster refuses."""
    name, workload = submission.name, submission.workload
    if name is not None and not _NAME.fullmatch(name):
        text = f"name: {name[:80]!r} is no name of an object; write small letters, digits and dashes"
        errors.add(("name",), text)
    if not _is_preemptible(workload):
        text = "type: trials of a sweep are preemptible; write train, or a priority below 100"
        errors.add(("workload", "type"), text)
    for place, text in beyond_object(submission):
        errors.add((place,), text)


def _is_preemptible(workload: Submission) -> bool:
    stated = workload.priority
    priority = DEFAULT_PRIORITY[WorkloadType(workload.type)] if stated is None else stated
    return workload.preemptible is True or priority < PREEMPTIBLE_BELOW
