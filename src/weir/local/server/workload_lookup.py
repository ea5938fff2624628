"""Workloads by name or by uid: a name is that of the newest, a uid reaches older ones of the same name."""

from typing import Final

from weir.local.server.pool_view import PoolView
from weir.local.server.problem_details import RequestRefused
from weir.store import Store, StoredWorkload

_UID_DIGITS_MAX: Final = 18


def parse_uid(word: str) -> int | None:
    """Return the uid a word is, if it is one."""
    is_uid = word.isascii() and word.isdecimal() and len(word) <= _UID_DIGITS_MAX
    return int(word) if is_uid else None


def live_name(view: PoolView, word: str) -> str:
    """Return the name of the workload that isn't over which a name or uid means; else the word itself."""
    uid = parse_uid(word)
    if uid is None or word in view.workloads:
        return word
    row = view.rows.get(uid)
    return word if row is None else row.name


def find_workload(store: Store, word: str) -> StoredWorkload | None:
    """Return the newest workload of a name, or the one with a uid."""
    found = store.workload(word)
    uid = parse_uid(word)
    return store.workload_of(uid) if found is None and uid is not None else found


def unknown_workload(name: str) -> RequestRefused:
    """Return the refusal of a name that no workload has."""
    return RequestRefused(404, f"There is no workload {name}; `weir list -A` shows which there are.")
