"""Deletion of sweeps that are over: checkpoints first, then the records.

A server that is killed in between still has the sweep, so the person deletes it once more.
"""

import asyncio
import os
from collections.abc import Iterable

from weir.api.sweeps import SweepDeleted
from weir.local.server.access.authorization import Action, Person, require
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.pool import PoolService
from weir.store.records import HistoryEvent, SweepRecord


async def delete_sweep(
    pool: PoolService, record: SweepRecord, person: Person, *, checkpoints: bool
) -> SweepDeleted:
    """Delete a sweep, and the checkpoints of its trials if they are to go with it.

    Raises:
        RequestRefused: it goes on, a trial isn't over, or the person may not.
    """
    require(person, Action.DELETE_SWEEP, record.project, owner=record.user)
    name = record.name
    if record.ended_s is None:
        raise RequestRefused(409, f"Sweep {name} isn't over: stop it first with `weir sweep stop {name}`.")
    still = RequestRefused(409, f"Trials of sweep {name} are still being stopped: try again in a moment.")
    trials = await asyncio.to_thread(pool.store.sweeps.trials, record.id)
    if name in pool.sweeps.live or any(trial.state == "live" for trial in trials):
        raise still
    saved = await asyncio.to_thread(_with_checkpoints, pool, [trial.uid for trial in trials])
    if checkpoints:
        await asyncio.to_thread(_delete_checkpoints, pool, saved)
    if not await asyncio.wrap_future(pool.store.sweeps.delete(record.id)):
        raise still
    pool.sweeps.forget(record)
    _event(pool, record, person)
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


def _event(pool: PoolService, record: SweepRecord, person: Person) -> None:
    numbers = {"user": person.user, "sweep": record.name}
    sentence = f"{person.user} deletes sweep {record.name}."
    pool.user_events.append(
        HistoryEvent(pool.clock(), "sweep", sentence, project=record.project, numbers=numbers)
    )
    pool.control_thread.wake()
