"""Starts of sessions, as the history of workloads has them."""

from sqlalchemy import select

from weir.control.session_headroom import SessionStart
from weir.model.workloads import WorkloadType
from weir.store.database.database import Database
from weir.store.tables import IS_INDEX, pool, workloads

STARTS_MAX = 100_000
"""Sessions that are read, the newest ones."""
_columns = workloads.c


class SessionStarts:
    """Submitted workloads of type build that ask for devices."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, since_s: float) -> tuple[list[SessionStart], float]:
        """Return the starts since a time in their order, and the time from which all of them are known."""
        query = (
            select(_columns.submitted_s, _columns.devices)
            .where(_columns.submitted_s >= since_s, _columns.type == WorkloadType.BUILD.value)
            .where(_columns.devices > 0, ~IS_INDEX)
            .order_by(_columns.submitted_s.desc())
            .limit(STARTS_MAX)
        )
        starts = [SessionStart(row[0], row[1]) for row in self._database.rows(query)]
        starts.reverse()
        if len(starts) == STARTS_MAX:
            return starts, starts[0].at_s
        begun_s = self._database.value(select(pool.c.created_s))
        return starts, max(since_s, float(begun_s or since_s))
