"""Reruns of ended workloads, of arrays, and of single indices of arrays."""

import asyncio
import json
from functools import partial

from weir.api.answers import WorkloadRow
from weir.api.submissions import Submission
from weir.control.journal import WorkloadRecord
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.http.problem_details import RequestRefused, read_as
from weir.local.server.http.worker_threads import Workers
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.workload_lookup import (
    find_workload,
    live_name,
    unknown_workload,
    workload_to_change,
)
from weir.local.server.submissions.submitter import ReadSubmission, Submitter
from weir.local.server.trials.trial_launch import launch_of_rerun
from weir.local.server.views.array_view import ArrayView
from weir.model.array_indices import split_name
from weir.store.records import StoredWorkload

SHELL_VARIABLES = frozenset(
    ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
)
"""Variables that the command line sends along: others of a project may run a workload again with them."""


class Reruns:
    """Runs workloads again."""

    def __init__(self, pool: PoolState, submitter: Submitter, workers: Workers) -> None:
        self._pool = pool
        self._submitter = submitter
        self._workers = workers

    async def rerun(self, word: str, person: Person, *, failed: bool) -> tuple[WorkloadRecord, WorkloadRow]:
        """Submit an ended workload again; with `failed`, the failed indices of an array alone.

        Indices of an array that isn't over are queued again in it.

        Raises:
            RequestRefused: the workload isn't over, or this person can't run it again.
        """
        pool = self._pool
        name = live_name(pool.view, word)
        array = self._live_array(name, failed=failed)
        if array is not None:
            return await self._requeue(array, name, person)
        if pool.view.is_live(name):
            name = await workload_to_change(pool, name, person)
            sentence = f"{name} isn't over yet: stop it first, or submit it under another name."
            raise RequestRefused(409, sentence)
        stored = await asyncio.to_thread(find_workload, pool.store, word)
        if stored is None:
            raise unknown_workload(pool.view, word)
        only: tuple[int, ...] = ()
        if stored.row.index is not None:
            only = (stored.row.index,)
            stored = await asyncio.to_thread(self._array_of, stored)
        elif failed:
            only = await self._failed(stored)
        return await self._submit(stored, only, person)

    def _live_array(self, name: str, *, failed: bool) -> ArrayView | None:
        """Return the array that isn't over of which indices are meant; None if the name means a workload."""
        arrays, parts = self._pool.view.arrays, split_name(name)
        if parts is not None and not self._pool.view.is_live(name):
            return arrays.named(parts[0])
        return arrays.named(name) if failed else None

    async def _requeue(
        self, array: ArrayView, name: str, person: Person
    ) -> tuple[WorkloadRecord, WorkloadRow]:
        """Queue indices of an array again that isn't over."""
        pool, uid = self._pool, array.record.uid
        await workload_to_change(pool, array.name, person)
        parts = split_name(name)
        if parts is None:
            indices = await asyncio.to_thread(pool.store.arrays.with_state, uid, "failed")
        else:
            indices = [parts[1]]
        queued = await asyncio.wrap_future(pool.store.arrays.requeue(uid, indices))
        if not queued and parts is None:
            raise RequestRefused(409, f"No index of {name} has failed.")
        if not queued:
            raise unknown_workload(pool.view, name)
        these = name if parts is not None else f"{len(queued):,} failed of {name}"
        sentence = f"{person.user} queues {these} again."
        pool.add_event(array.record.record.workload, uid, "resumed", sentence, person)
        pool.wake_array(uid)
        return array.record.record, array.row()

    def _array_of(self, stored: StoredWorkload) -> StoredWorkload:
        """Return the array of an index."""
        array_uid = stored.row.array_uid
        array = None if array_uid is None else self._pool.store.workloads.get(array_uid)
        if array is None:
            raise RequestRefused(
                409, f"The array of {stored.row.name} was deleted from the history: submit it again."
            )
        return array

    async def _failed(self, stored: StoredWorkload) -> tuple[int, ...]:
        name, store = stored.row.name, self._pool.store
        if stored.row.array is None:
            raise RequestRefused(409, f"{name} is no array: run it again without --failed.")
        failed = await asyncio.to_thread(store.arrays.with_state, stored.row.uid, "failed")
        if not failed:
            raise RequestRefused(409, f"No index of {name} has failed.")
        return tuple(failed)

    async def _submit(
        self, stored: StoredWorkload, only: tuple[int, ...], person: Person
    ) -> tuple[WorkloadRecord, WorkloadRow]:
        pool, name = self._pool, stored.row.name
        pool.require_visible(person, stored.row.project, stored.row.submitted_s)
        _check_rerun(stored, person)
        if stored.row.array is not None and not only:
            array = await asyncio.to_thread(pool.store.arrays.get, stored.row.uid)
            only = () if array is None or array.record.array is None else array.record.array.only
        raw = {**stored.asked, "name": name}
        text = json.dumps(raw)
        read = partial(read_as, Submission, text, f"The submission of {name}", pool.priority_classes)
        submission = await self._workers.parse(len(text), read)
        trial = launch_of_rerun(stored.record)
        asked = ReadSubmission(submission, raw, len(text), only, trial)
        return await self._submitter.submit(asked, person)


async def stop_index(pool: PoolState, name: str, person: Person) -> WorkloadRow | None:
    """Stop an index of an array that wasn't queued yet; None if the name means something else.

    Raises:
        RequestRefused: the person may not stop it.
    """
    parts = split_name(name)
    array = None if parts is None else pool.view.arrays.named(parts[0])
    if parts is None or array is None or pool.view.is_live(name):
        return None
    await workload_to_change(pool, array.name, person)
    uid, index = array.record.uid, parts[1]
    if not await asyncio.wrap_future(pool.store.arrays.skip(uid, index)):
        return None
    sentence = f"{person.user} stops {name}."
    pool.add_event(array.record.record.workload, uid, "withdrawn", sentence, person)
    pool.wake_array(uid)
    row = array.row()
    changes = {"name": name, "status": "stopped", "array": None, "array_uid": uid, "index": index}
    return row.model_copy(update={**changes, "ended_s": pool.clock(), "reason": None})


def _check_rerun(recorded: StoredWorkload, person: Person) -> None:
    """Refuse to run a workload again with details that were removed, or that the person may not read.

    Its new user gets all that it was submitted with.

    Raises:
        RequestRefused: it can't be run again by them.
    """
    name, user = recorded.row.name, recorded.row.user
    if not recorded.record.launch.command:
        raise RequestRefused(
            409,
            f"Command and environment of {name} are removed (weir up --keep-details): submit it again.",
        )
    hidden = [key for key, _ in recorded.record.launch.environment if key not in SHELL_VARIABLES]
    project = recorded.row.project
    if hidden and not may(person, Action.READ_ENVIRONMENT, project, owner=user):
        raise RequestRefused(
            403,
            f"{name} was submitted by {user} with private values ({', '.join(hidden[:3])}): "
            "they or an administrator can rerun it.",
        )
