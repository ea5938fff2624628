"""Counts of live rows are those of the rows, whatever is set and popped."""

import random
from collections import Counter

from weir.api.answers import WorkloadRow
from weir.local.server.views.live_rows import LiveRows


def row(uid: int, project: str, status: str) -> WorkloadRow:
    return WorkloadRow.model_construct(uid=uid, project=project, status=status)


def test_counts_are_those_of_the_rows() -> None:
    dice = random.Random(5)
    rows = LiveRows(row(uid, "p", "running") for uid in range(5))
    for _ in range(500):
        uid = dice.randrange(20)
        if dice.random() < 0.3:
            rows.pop(uid, None)
        else:
            rows[uid] = row(uid, dice.choice("pq"), dice.choice(["pending", "running", "stopping"]))
        running, pending = rows.counts()
        assert pending == Counter(each.project for each in rows.values() if each.status == "pending")
        assert running == Counter(each.project for each in rows.values() if each.status != "pending")
