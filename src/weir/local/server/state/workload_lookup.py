"""Workloads by name or by uid: a name is that of the newest, a uid reaches older ones of the same name."""

import asyncio
from typing import Final

from weir.local.server.access.authorization import Action, Person, require
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.state.pool_state import PoolState
from weir.local.server.views.pool_view import PoolView
from weir.model.array_indices import split_name
from weir.store.records import StoredWorkload
from weir.store.store import Store

_UID_DIGITS_MAX: Final = 18


def parse_uid(word: str) -> int | None:
    """Return the uid in a word; None if the word isn't a uid."""
    is_uid = word.isascii() and word.isdecimal() and len(word) <= _UID_DIGITS_MAX
    return int(word) if is_uid else None


def live_name(view: PoolView, word: str) -> str:
    """Return the name of the workload that isn't over which a name or uid means; else the word itself."""
    uid = parse_uid(word)
    if uid is None or view.is_live(word):
        return word
    row = view.rows.get(uid) or view.arrays.row_of(uid)
    return word if row is None else row.name


def find_workload(store: Store, word: str) -> StoredWorkload | None:
    """Return the newest workload of a name, or the one with a uid; None if there is neither."""
    stored = store.workloads.newest(word)
    uid = parse_uid(word)
    return store.workloads.get(uid) if stored is None and uid is not None else stored


def unknown_workload(view: PoolView, name: str) -> RequestRefused:
    """Return the refusal of a name that no workload has, or of an index that its array doesn't have."""
    parts = split_name(name)
    array = None if parts is None else view.arrays.named(parts[0])
    if parts is not None and array is not None and parts[1] not in array.record.indices:
        return RequestRefused(404, f"Array {parts[0]} has no index {parts[1]}.")
    return RequestRefused(404, f"There is no workload {name}; `weir list -A` shows which there are.")


async def workload_to_change(pool: PoolState, word: str, person: Person) -> str:
    """Return the name of the workload that a name or uid means, if this person may act on it."""
    name = live_name(pool.view, word)
    spec = pool.view.spec_of(name)
    if spec is not None:
        require(person, Action.CONTROL, spec.project, owner=spec.user)
        return name
    stored = await asyncio.to_thread(find_workload, pool.store, word)
    if stored is None:
        raise unknown_workload(pool.view, word)
    require(person, Action.CONTROL, stored.row.project, owner=stored.row.user)
    if stored.row.name != word and stored.row.ended_s is not None:
        raise RequestRefused(409, f"Workload {word}, {stored.row.name}, is over already.")
    return stored.row.name
