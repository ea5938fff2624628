"""Starts of sessions in the history of workloads."""

from pathlib import Path

from tests.unit.store.fixtures import NOW_S, opened, submitted

from weir.control.session_headroom import SessionStart
from weir.model.workloads import WorkloadType


def test_sessions_with_devices_are_read_in_their_order(tmp_path: Path) -> None:
    with opened(tmp_path / "home") as store:
        for name, type_, at_s in (
            ("late", WorkloadType.BUILD, NOW_S + 20),
            ("early", WorkloadType.BUILD, NOW_S + 10),
            ("train", WorkloadType.TRAIN, NOW_S + 5),
            ("old", WorkloadType.BUILD, NOW_S - 10),
        ):
            store.workloads.submit(submitted(name, at_s=at_s, type=type_)).result()
        starts, known_since_s = store.session_starts.since(NOW_S)
        assert starts == [SessionStart(NOW_S + 10, 1.0), SessionStart(NOW_S + 20, 1.0)]
        assert known_since_s >= NOW_S
