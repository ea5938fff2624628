"""Sessions of a cluster, as its history knows them."""

from pathlib import Path
from typing import Any

from weir.api.workload_list import WorkloadRow
from weir.store.cluster.records import ClusterHistoryEntry
from weir.store.cluster.writer import ClusterHistory
from weir.store.records import Retention, UsageSamples

NOW_S = 1_800_000_000.0


def workload(uid: int, **fields: Any) -> ClusterHistoryEntry:
    row = WorkloadRow.model_validate(
        {
            "uid": uid,
            "name": f"ns/w{uid}",
            "project": "vision",
            "user": "",
            "type": "build",
            "status": "succeeded",
            "priority": 50,
            "preemptible": False,
            "devices": 2,
            "pods": 1,
            "pods_running": 0,
            "submitted_s": NOW_S + uid,
            "ended_s": NOW_S + uid + 60,
            **fields,
        }
    )
    return ClusterHistoryEntry(row, "ns", f"w{uid}", f"job-w{uid}", None, False, NOW_S + 500, {"detail": {}})


def test_sessions_are_known_since_the_history_began(tmp_path: Path) -> None:
    history = ClusterHistory(f"sqlite:///{tmp_path / 'history.db'}", "c1", Retention())
    try:
        assert history.session_starts(NOW_S) == ([], float("inf"))
        history.sample(UsageSamples(NOW_S - 120.0, NOW_S - 60.0, []))
        history.write([workload(2), workload(1), workload(3, type="train"), workload(4, devices=0)], [])
        starts, known_s = history.session_starts(NOW_S - 86400.0)
        assert [(start.at_s, start.devices) for start in starts] == [(NOW_S + 1, 2.0), (NOW_S + 2, 2.0)]
        assert known_s == NOW_S - 120.0
        assert history.session_starts(NOW_S)[1] == NOW_S
    finally:
        history.close()
