"""Readiness names what makes no progress, and a stop ends even if a thread hangs."""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing, standing
from tools import prefork

from weir.local.processes import fd_watcher
from weir.local.server.control import health
from weir.local.server.http.listening import listen
from weir.service import control_thread
from weir.service.shutdown_deadline import ShutdownDeadline
from weir.store.errors import StoreFailed


async def ready(pool: Standing) -> tuple[int, dict[str, Any]]:
    answer = await pool.admin.get("/readyz")
    return answer.status_code, answer.json()


async def unready(pool: Standing, name: str, words: str, again: Callable[[], None] = lambda: None) -> None:
    """Wait until readiness fails because of this part, with these words; do something before each look."""
    until = time.monotonic() + 120
    while True:
        again()
        status, body = await ready(pool)
        if status == 503 and words in body["checks"].get(name, ""):
            return
        assert time.monotonic() < until, body
        await asyncio.sleep(0.05)


@pytest.fixture
async def pool(tmp_path: Path) -> Any:
    async with standing(tmp_path / "home", gpus=1) as stands:
        yield stands


async def test_all_is_well(pool: Standing) -> None:
    async with asyncio.timeout(120):  # a probe may be late on a busy machine
        while await ready(pool) != (200, {"status": "ok"}):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_trouble_of_two_parts_is_reported_once(
    pool: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def troubles() -> dict[str, str]:
        return {"disk": "The disk is full.", "database": "The disk is full.", "watch": "It hangs."}

    monkeypatch.setattr(pool.pool.health, "troubles", troubles)
    status, body = await ready(pool)
    assert (status, body["why"], len(body["checks"])) == (503, "The disk is full. It hangs.", 3)


async def test_a_watch_thread_that_hangs_or_ended(pool: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fd_watcher, "STUCK_AFTER_S", 0.05)
    hang = threading.Event()
    inner: Any = pool.pool.backend
    inner._watch.later(0.0, hang.wait)
    try:
        await unready(pool, "watch", "watches pods has been in one step")
    finally:
        hang.set()


async def test_a_control_thread_that_hangs(pool: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_thread, "STUCK_AFTER_S", 0.05)
    hang = threading.Event()
    pool.pool.control_thread.query(lambda _: hang.wait())
    try:
        await unready(pool, "control", "one step")
    finally:
        hang.set()


async def test_a_control_thread_that_takes_nothing_in(
    pool: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason is: what happened waits, and no step comes."""
    monkeypatch.setattr(control_thread, "STUCK_AFTER_S", 2.0)
    thread = pool.pool.control_thread
    thread._between_s = thread._next_step_s = float("inf")  # the former, as a step may be running
    try:
        await unready(pool, "control", "hasn't processed facts", thread.wake)
    finally:
        thread._between_s = thread._next_step_s = 0.0


async def test_a_store_that_hangs_and_one_that_fails(pool: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBE_S_MAX", 0.1)
    monkeypatch.setattr(health, "PROBE_KEPT_S", 0.0)
    hang = threading.Event()
    pool.pool.store._database.write(lambda _: hang.wait(), durable=False)
    try:
        await unready(pool, "database", "hasn't come back")
    finally:
        hang.set()

    def fails() -> None:
        raise StoreFailed("The disk that holds the database is full.", is_full=True)

    monkeypatch.setattr(pool.pool.health._probe, "_store", fails)
    monkeypatch.setattr(health, "PROBE_S_MAX", 20.0)
    await unready(pool, "database", "The disk is full.")


async def test_a_disk_that_takes_nothing(pool: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBE_KEPT_S", 0.0)
    monkeypatch.setattr(health, "_write_file", lambda _: os.open("/dev/full/none", os.O_WRONLY))
    await unready(pool, "disk", "can't be written")


async def test_the_status_says_that_the_database_takes_nothing(
    pool: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise StoreFailed("The disk that holds the database is full.", is_full=True)

    assert (await pool.get("status"))["trouble"] is None
    monkeypatch.setattr(health, "PROBE_KEPT_S", 0.0)
    monkeypatch.setattr(health, "PROBE_S_MAX", 120.0)
    with monkeypatch.context() as patched:
        patched.setattr(pool.pool.health._probe, "_store", fails)
        found = await pool.get("status")
    still = "Meanwhile nothing starts or changes, and running work goes on."
    assert found["trouble"] == f"The disk is full. {still}"
    assert (await pool.get("status"))["trouble"] is None


async def test_threads_for_requests_that_are_used_up(pool: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "THREADS_S_MAX", 0.1)
    hang = threading.Event()
    hung = [asyncio.create_task(asyncio.to_thread(hang.wait)) for _ in range(64)]
    try:
        await unready(pool, "requests", "busy")
    finally:
        hang.set()
        await asyncio.gather(*hung)


def test_a_deadline_says_what_it_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []
    over = threading.Event()

    def end(code: int) -> None:
        ended.append(code)
        over.set()

    forgotten: list[str] = []
    deadline = ShutdownDeadline(within_s=0.05, last=lambda: forgotten.append("place"), end=end)
    deadline.begin()
    deadline.begin()
    deadline.waits_for = "weir-watch"
    assert over.wait(120)
    assert ended == [1]
    assert forgotten == ["place"]
    assert "weir-watch" in "".join(capsys.readouterr())


HANGS = {
    "weir-control": "pool.control_thread.query(lambda _: hang())",
    "weir-watch": "pool.backend._watch.later(0.0, hang)",
    "open requests": "hang()",
}
SERVE = """
import asyncio, sys, time
from pathlib import Path
from weir.local.server import main as up
from weir.local.server.settings.server_settings import ServerSettings as Settings

def hang():
    print("hangs", flush=True)
    time.sleep(600)

class Server(up.PoolServer):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        pool, deadline = self._pool, self._pool.deadline
        end = deadline._run

        def end_there():
            while deadline.waits_for != {name!r}:  # however slow the machine is
                time.sleep(0.01)
            end()

        deadline._within_s, deadline._run = 0.3, end_there
        asyncio.get_running_loop().call_soon(lambda: {hang})

up.PoolServer = Server
sys.exit(up.run(Settings(home=Path(sys.argv[1]), port=0, virtual_gpus=1)))
"""


@pytest.mark.parametrize("name", HANGS)
def test_a_stop_ends_though_a_thread_hangs(name: str, tmp_path: Path) -> None:
    script = SERVE.format(name=name, hang=HANGS[name])
    command = [sys.executable, "-c", script, str(tmp_path / "home")]
    reading, writing = os.pipe()
    with (tmp_path / "log").open("w") as errors:
        process = prefork.start(command, stdout=writing, stderr=errors.fileno())
    os.close(writing)
    guard = threading.Timer(240.0, process.kill)
    guard.start()
    try:
        with os.fdopen(reading) as output:
            assert "hangs\n" in output
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)
    finally:
        guard.cancel()
        process.kill()
    log = (tmp_path / "log").read_text()
    assert code == 1, log
    assert log.count("stop_took_too_long") == 1
    assert name in log
    assert not (tmp_path / "home" / "server.json").exists()


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """A second segment over a kept connection would wait 40 ms."""
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
