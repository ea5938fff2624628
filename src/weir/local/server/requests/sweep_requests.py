"""Requests about sweeps: checked completely, written down, and then left to the controller."""

import asyncio
import json
import os
from collections.abc import Iterable, Mapping

from weir.api.name_endings import random_ending
from weir.api.sweep_rules import check_sweep
from weir.api.sweep_submissions import SweepSubmission
from weir.api.sweeps import SweepDeleted
from weir.local.server.access.absent_person import owner_of
from weir.local.server.access.authorization import Action, Person, may, require
from weir.local.server.http.problem_details import FieldErrors, RequestRefused
from weir.local.server.pool import PoolService
from weir.local.server.state.pool_inventory import check_name
from weir.local.server.trials.trial_launch import trial_submission
from weir.store.errors import NameTaken
from weir.store.records import SweepRecord
from weir.sweeps.past_trials import SamplerUnavailable
from weir.sweeps.samplers import check_sampler, random_point

LIVE_PER_PERSON_MAX = 100
"""Limit of unfinished sweeps of one person."""
NAMES_TRIED_MAX = 5


async def create_sweep(
    pool: PoolService, submission: SweepSubmission, raw: Mapping[str, object], person: Person
) -> SweepRecord:
    """Store a new sweep, and let the controller begin its trials.

    Raises:
        RequestRefused: the request is invalid, or not allowed for this person.
        NameTaken: a sweep has this name already.
    """
    workload = submission.workload
    if workload.project in pool.inventory.queues_by_name:
        require(person, Action.SUBMIT, workload.project)
    _check_number(pool, person)
    await _check(pool, submission, len(json.dumps(dict(raw))), person)
    for tries_left in reversed(range(NAMES_TRIED_MAX)):
        name = submission.name or f"sweep-{random_ending()}"
        record = SweepRecord(
            id=0,
            name=name,
            project=workload.project,
            user=person.user,
            state="running",
            spec={**raw, "name": name},
            owner=owner_of(person),
            created_s=pool.clock(),
        )
        try:
            made = await asyncio.wrap_future(pool.store.sweeps.create(record))
        except NameTaken:
            if submission.name is not None or not tries_left:
                raise
            continue
        break
    sentence = f"{person.user} begins sweep {name} of {submission.trials_max:,} trials."
    _add_event(pool, made, person, sentence)
    await pool.sweeps.take(made)
    return made


async def stop_sweep(pool: PoolService, record: SweepRecord, person: Person) -> SweepRecord:
    """End a sweep: its trials are stopped, and no others begin.

    Raises:
        RequestRefused: the sweep is over, or the person may not stop it.
    """
    require(person, Action.CONTROL, record.project, owner=record.user)
    if record.ended_s is not None:
        raise RequestRefused(409, f"Sweep {record.name} is over already.")
    sweep = pool.sweeps.live.get(record.name) or await pool.sweeps.read_sweep(record)
    await pool.sweeps.end(sweep, "stopped", f"It was stopped by {person.user}.")
    stored = await asyncio.to_thread(pool.store.sweeps.get, record.name)
    assert stored is not None
    return stored


def _check_number(pool: PoolService, person: Person) -> None:
    """Check that a person hasn't reached the limit of unfinished sweeps.

    Raises:
        RequestRefused: the limit is reached.
    """
    running = sum(
        sweep.record.state == "running" and sweep.record.user == person.user
        for sweep in tuple(pool.sweeps.live.values())
    )
    if running >= LIVE_PER_PERSON_MAX and not may(person, Action.EXCEED_LIMITS):
        sentence = (
            f"{running} of your sweeps go on, the maximum for one person: stop some, or wait for their end."
        )
        raise RequestRefused(429, sentence)


async def _check(pool: PoolService, submission: SweepSubmission, size: int, person: Person) -> None:
    """Check everything that a trial would be refused for.

    Raises:
        RequestRefused: with everything that is wrong.
    """
    fields, workload = FieldErrors("The sweep"), submission.workload
    check_name(submission.name, fields)
    check_sweep(submission, fields)
    if submission.checkpoint_claim is not None:
        text = "checkpoint_claim: is for clusters; trials have directories of their own here, leave it out"
        fields.add(("checkpoint_claim",), text)
    try:
        await asyncio.to_thread(check_sampler, submission.sampler)
    except SamplerUnavailable as error:
        fields.add(("sampler",), f"sampler: {error}")
    fields.refuse_if_any()
    params = random_point(submission.space(), submission.seed, 0)
    made = trial_submission(submission, {}, submission.name or "sweep", 0, params)
    trial = workload.model_copy(update={"command": made["command"], "name": None})
    record = await pool.submitter.check(trial, size, person)
    if not record.workload.preemptible:
        text = "type: trials of a sweep are preemptible; write train, or a priority below 100"
        fields.add(("workload", "type"), text)
    fields.refuse_if_any()


async def delete_sweep(
    pool: PoolService, record: SweepRecord, person: Person, *, checkpoints: bool
) -> SweepDeleted:
    """Delete a sweep that is over; with `checkpoints`, delete those of its trials first.

    A server that is killed in between still has the sweep, so the person deletes it once more.

    Raises:
        RequestRefused: the sweep or a trial isn't over, or the person may not delete it.
    """
    require(person, Action.DELETE_SWEEP, record.project, owner=record.user)
    name = record.name
    if record.ended_s is None:
        raise RequestRefused(409, f"Sweep {name} isn't over: stop it first with `weir sweep stop {name}`.")
    still = RequestRefused(409, f"Trials of sweep {name} are still being stopped: try again in a moment.")
    trials = await asyncio.to_thread(pool.store.sweeps.trials, record)
    if name in pool.sweeps.live or any(trial.state == "live" for trial in trials):
        raise still
    saved = await asyncio.to_thread(_with_checkpoints, pool, [trial.uid for trial in trials])
    if checkpoints:
        await asyncio.to_thread(_delete_checkpoints, pool, saved)
    if not await asyncio.wrap_future(pool.store.sweeps.delete(record.id)):
        raise still
    pool.sweeps.forget(record)
    _add_event(pool, record, person, f"{person.user} deletes sweep {name}.")
    return SweepDeleted(
        name=name,
        trials=len(trials),
        checkpoints_deleted=len(saved) if checkpoints else 0,
        checkpoints_kept=0 if checkpoints else len(saved),
    )


def _with_checkpoints(pool: PoolService, uids: Iterable[int]) -> list[int]:
    """Return the workloads whose checkpoint directory isn't empty, or can't be read by the server."""
    return [uid for uid in uids if _has_files(f"{pool.home}/checkpoints/{uid}")]


def _has_files(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(entries)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _delete_checkpoints(pool: PoolService, uids: Iterable[int]) -> None:
    for uid in uids:
        pool.backend.home.delete_checkpoints(uid)


def _add_event(pool: PoolService, record: SweepRecord, person: Person, sentence: str) -> None:
    pool.add_pool_event("sweep", sentence, project=record.project, user=person.user, sweep=record.name)
