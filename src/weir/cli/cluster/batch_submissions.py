"""Several submissions at once on a cluster: all or none become Jobs.

They are created suspended, and released when all are accepted. So none runs if one is refused. A label tells
which Jobs were created together: if the command is killed, those that are suspended are left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from weir.api.answers import Problem, WorkloadPage
from weir.api.batch_order import BatchOrderError, dependency_names, ordered_positions
from weir.api.batches import SubmissionBatch, merged
from weir.api.field_errors import read_model
from weir.api.name_endings import random_ending
from weir.api.submissions import Submission
from weir.cli.cluster.body_errors import BodyErrors
from weir.cli.cluster.errors import refused, wrong
from weir.cli.cluster.gang_addresses import GangAddresses
from weir.cli.cluster.lookup import JOBS, Lookup
from weir.cli.cluster.queued_row import queued_row
from weir.cli.cluster.submission_job import SubmissionJobs, job_in
from weir.client.errors import Refused
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import AlreadyExists, ApiError, ApiRefused, ApiUnreachable, NotFound
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import OwnerObject
from weir.kubernetes.translate.annotations import PREFIX

BATCH_LABEL = f"{PREFIX}batch"
AT_ONCE = 8
"""Jobs of a batch that are created or released at the same time."""
TRIES, PAUSE_S = 10, 2.0
"""Attempts to release a Job, or to remove one, while the API server doesn't answer, and time between them."""
_PASSING = (429, 500, 502, 503, 504)
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _HeldSubmission:
    """A Job of a batch."""

    submission: Submission
    namespace: str
    body: dict[str, Any]

    @property
    def path(self) -> str:
        return path_of(JOBS, "jobs", self.namespace, self.body["metadata"]["name"])


class BatchSubmissions:
    """Creates the Jobs of batches."""

    def __init__(self, api: ApiClient, lookup: Lookup, jobs: SubmissionJobs) -> None:
        self._api, self._lookup, self._jobs = api, lookup, jobs
        self._addresses = GangAddresses(api)

    async def submit(self, body: bytes) -> WorkloadPage:
        """Create several Jobs, all or none.

        Raises:
            PoolError: one of them is refused, and none is left; or not all could be released or removed.
        """
        batch = read_model(SubmissionBatch, body, BodyErrors("The batch"))
        try:
            order = ordered_positions(batch.workloads)
        except BatchOrderError as error:
            raise Refused(
                Problem(title="The cluster refused", status=422, detail=str(error), errors=error.errors)
            ) from None
        mark = random_ending(8)
        held = await self._held_jobs(batch.workloads, merged(msgspec.json.decode(body))["workloads"], mark)
        try:
            created = await _in_turn(self._create, held)
        except BaseException as error:
            await self._remove(held, mark, error)
            raise
        # In reverse order of dependencies: after an interruption, no chain has begun.
        await self._release([held[position] for position in reversed(order)], mark)
        rows = [
            queued_row(job.submission, job.namespace, made) for job, made in zip(held, created, strict=True)
        ]
        return WorkloadPage(total=len(rows), next=None, items=rows)

    async def _held_jobs(
        self, workloads: Sequence[Submission], written: Sequence[Mapping[str, Any]], mark: str
    ) -> list[_HeldSubmission]:
        """Return the Jobs of a batch, suspended.

        Raises:
            PoolError: a Job can't express one of them.
        """
        settings, held_jobs = await self._jobs.settings(), []
        for index, (submission, words) in enumerate(zip(workloads, written, strict=True)):
            try:
                namespace = await self._lookup.namespace_for_work(submission.project)
                job = job_in(settings, submission, words)
            except Refused as error:
                raise wrong(f"workloads[{index}]: {error.problem.detail}") from None
            job["metadata"]["labels"] = {**job["metadata"]["labels"], BATCH_LABEL: mark}
            job["spec"]["suspend"] = True
            job = await self._addresses.add_to(job, namespace)
            held_jobs.append(_HeldSubmission(submission, namespace, job))
        namespaces = {job.submission.name: job.namespace for job in held_jobs}
        for index, held in enumerate(held_jobs):
            for name in dependency_names(held.submission):
                if namespaces.get(name, held.namespace) != held.namespace:
                    raise wrong(
                        f"workloads[{index}]: {name} is in the namespace {namespaces[name]}, and a condition "
                        f"holds within {held.namespace} alone"
                    )
        return held_jobs

    async def _create(self, job: _HeldSubmission) -> ApiObject:
        try:
            created = await self._api.post(path_of(JOBS, "jobs", job.namespace), job.body, ApiObject)
        except AlreadyExists as error:
            left = await self._left_over(job)
            if left is None:
                raise
            command = _command("delete", job.namespace, left)
            cut_off = f"It is left of a submission that was cut off: `{command}` removes all of that."
            raise refused(409, f"{error.message}. {cut_off}") from None
        await self._addresses.create_service(job.body, job.namespace, created.metadata)
        return created

    async def _left_over(self, job: _HeldSubmission) -> str | None:
        """Return the mark of a suspended Job left by an interrupted batch; None for other Jobs."""
        try:
            stored_job = await self._api.get(job.path, OwnerObject)
        except ApiRefused:
            return None
        has_begun = stored_job.status.get("startTime") or not stored_job.spec.get("suspend")
        return None if has_begun else stored_job.metadata.labels.get(BATCH_LABEL)

    async def _release(self, jobs: Sequence[_HeldSubmission], mark: str) -> None:
        async def release(job: _HeldSubmission) -> None:
            await _patiently(
                lambda: self._api.patch(job.path, {"spec": {"suspend": False}}, Patch.MERGE, ApiObject)
            )

        try:
            await _in_turn(release, jobs)
        except ApiError as error:
            raise refused(
                500,
                f"All {len(jobs)} Jobs are created, and not all could be released: {error}. "
                f"`weir resume NAME` releases one that is suspended: {_commands('get', jobs, mark)}.",
            ) from None

    async def _remove(self, jobs: Sequence[_HeldSubmission], mark: str, why: BaseException) -> None:
        """Delete the Jobs of a batch that were created.

        Raises:
            PoolError: some may be left.
        """
        if isinstance(why, ApiError) and why.may_have_happened:
            # A write without an answer may still be carried out
            await asyncio.sleep(self._api.limits.write_s)
        try:
            for namespace in {job.namespace for job in jobs}:
                path, of_batch = path_of(JOBS, "jobs", namespace), f"{BATCH_LABEL}={mark}"
                listed = partial(self._api.list_all, path, ApiObject, label_selector=of_batch)
                await _in_turn(self._delete, await _patiently(listed))
        except ApiError:
            raise refused(
                500,
                f"{str(why).rstrip('.')}. Jobs may be left, suspended: {_commands('delete', jobs, mark)}.",
            ) from None

    async def _delete(self, job: ApiObject) -> None:
        path = path_of(JOBS, "jobs", job.metadata.namespace, job.metadata.name)
        with suppress(NotFound):
            await _patiently(lambda: self._api.delete(path, uid=job.metadata.uid, propagation="Background"))


async def _in_turn(act: Callable[[T], Awaitable[R]], inputs: Sequence[T]) -> list[R]:
    """Return the results of an action on each item, some at a time; start no more after a failure.

    Actions that have begun are awaited: a request that was sent can't be undone.
    """
    results: list[R] = []
    for start in range(0, len(inputs), AT_ONCE):
        outcomes = await asyncio.gather(*map(act, inputs[start : start + AT_ONCE]), return_exceptions=True)
        for result in outcomes:
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    return results


async def _patiently(act: Callable[[], Awaitable[T]]) -> T:
    """Return the result of an idempotent action; repeat the action while there is no answer."""
    for left in reversed(range(TRIES)):
        try:
            return await act()
        except (ApiUnreachable, ApiRefused) as error:
            if not left or (isinstance(error, ApiRefused) and error.status not in _PASSING):
                raise
            await asyncio.sleep(PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


def _commands(verb: str, jobs: Sequence[_HeldSubmission], mark: str) -> str:
    namespaces = sorted({job.namespace for job in jobs})
    return " and ".join(f"`{_command(verb, namespace, mark)}`" for namespace in namespaces)


def _command(verb: str, namespace: str, mark: str) -> str:
    return f"kubectl {verb} jobs -n {namespace} -l {BATCH_LABEL}={mark}"
