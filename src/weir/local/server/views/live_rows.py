"""Rows of workloads that aren't over, with their numbers by project."""

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import Any

from weir.api.answers import WorkloadRow


class LiveRows(dict[int, WorkloadRow]):
    """Rows by the number of their workload. Rows are set and popped one by one, by any thread."""

    def __init__(self, rows: Iterable[WorkloadRow] = ()) -> None:
        super().__init__((row.uid, row) for row in rows)
        self._lock = Lock()
        self._count = Counter(_counted(row) for row in self.values())

    def __setitem__(self, uid: int, row: WorkloadRow) -> None:
        """Add or replace a row."""
        with self._lock:
            self._forget(uid)
            super().__setitem__(uid, row)
            self._count[_counted(row)] += 1

    def pop(self, uid: int, default: Any = None) -> Any:
        """Remove and return a row; return the default if there is none."""
        with self._lock:
            self._forget(uid)
            return super().pop(uid, default)

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return the numbers of running and pending workloads by project."""
        running: Counter[str] = Counter()
        pending: Counter[str] = Counter()
        with self._lock:
            for (project, is_pending), number in self._count.items():
                (pending if is_pending else running)[project] = number
        return running, pending

    def _forget(self, uid: int) -> None:
        """Subtract a row from the counts, if there is one."""
        row = self.get(uid)
        if row is not None:
            key = _counted(row)
            self._count[key] -= 1
            if not self._count[key]:
                del self._count[key]


def _counted(row: WorkloadRow) -> tuple[str, bool]:
    return row.project, row.status == "pending"
