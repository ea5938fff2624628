"""An answer, and the stream, show what was done before, however the threads take turns."""

import threading
from typing import Any

import pytest

from weir.local.server.state import pool_state
from weir.local.server.views.live_rows import LiveRows
from weir.service.queue_rows import DeviceUtilization

from .in_process_server import Standing


async def test_submission_is_streamed_before_control_knows_it(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the row of a workload that has started could be followed by the one that was submitted."""
    order: list[str] = []
    pool = stands.pool
    send, submitted = pool.stream.send, pool.backend.submitted

    def sends(changes: Any) -> None:
        order.extend(f"{row.name} {row.status}" for kind, row, _ in changes if kind == "workload")
        send(changes)

    def knows(record: Any) -> None:
        order.append("known")
        submitted(record)

    monkeypatch.setattr(pool.stream, "send", sends)
    monkeypatch.setattr(pool.backend, "submitted", knows)
    await stands.submit("true", name="job")
    await stands.until("job", "succeeded")
    assert order[:2] == ["job pending", "known"]


async def test_project_deleted_while_its_change_is_answered_costs_no_answer(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deleted() -> dict[str, Any]:
        return {}

    with monkeypatch.context() as patched:
        patched.setattr(stands.pool, "queue_rows", deleted)
        row = await stands.project("vision", 2)
    assert (row["name"], row["quota"]) == ("vision", {"gpu": 2.0})


async def test_end_is_visible_when_the_name_is_free(stands: Standing) -> None:
    view = stands.pool.view
    seen: list[tuple[bool, bool]] = []

    class Rows(LiveRows):
        def pop(self, uid: int, default: Any = None) -> Any:
            seen.append(("job" in view.workloads, uid in view.ended))
            return super().pop(uid, default)

    view.rows = Rows()
    await stands.submit("true", name="job")
    await stands.until("job", "succeeded")
    assert seen == [(False, True)]


async def test_reading_of_devices_keeps_a_drain_that_comes_meanwhile(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, merge = stands.pool, pool_state.with_drained
    drains = threading.Thread(target=lambda: setattr(pool, "drained_gpus", {0: "drained"}))

    def merges(*words: Any) -> Any:
        if drains.ident is None:
            drains.start()
            drains.join(0.2)  # it would end, but for the lock
        return merge(*words)

    monkeypatch.setattr(pool_state, "with_drained", merges)
    pool.device_use = {(pool.node.name, 0): DeviceUtilization(0.5)}
    drains.join(120)
    assert pool.device_use[pool.node.name, 0].drained == "drained"
