"""A sender that fails itself: it begins again, says so until it is well, and sends nothing twice."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.unit.local.server.receivers import Receivers, settings, until

from weir.model.notifications import OutboxMessage
from weir.notifications import sender
from weir.notifications.channels import Attempt, Channels
from weir.notifications.sender import FAILED, NotificationSender

from .test_notification_delivery import hooks, sending

__all__ = ["hooks"]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Return faults that the sender meets next, one in each of its turns."""
    found: list[BaseException] = []
    turn = NotificationSender._turn

    async def broken(self: NotificationSender) -> None:
        if found:
            raise found.pop(0)
        await turn(self)

    monkeypatch.setattr(NotificationSender, "_turn", broken)
    monkeypatch.setattr(sender, "RESTART_S", 0.05)
    monkeypatch.setattr(sender, "STEADY_S", 1e6)
    return found


async def test_a_sender_that_fails_begins_again_and_logs_each_failure_once(
    tmp_path: Path, hooks: Receivers, faults: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs() as logs, sending(tmp_path, settings(hooks.origin)) as run:
        rule = run.rule(f"{hooks.origin}/ok")
        run.tell("The first event.")
        hooks.until(1)
        assert run.sender.trouble is None
        faults += [RuntimeError("first"), ValueError("second")]
        run.tell("The second event.")
        await until(lambda: not faults)
        hooks.until(2)
        await run.until(rule, "delivered")
        assert run.sender.trouble == FAILED, "it has run for a moment alone"
        monkeypatch.setattr(sender, "STEADY_S", 0.0)
        assert run.sender.trouble is None
        run.tell("The third event.")
        hooks.until(3)
    failures = [each for each in logs if each["event"] == "notification_sender_failed"]
    assert [each["again_in_s"] for each in failures] == [0.05, 0.1], "the pause doubles"
    assert hooks.attempts == {"/ok": 3}


async def test_a_loop_that_breaks_is_replaced(
    tmp_path: Path, hooks: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is below the sender, such as a file descriptor that the process has no more of."""
    monkeypatch.setattr(sender, "RESTART_S", 0.05)
    with sending(tmp_path, settings(hooks.origin)) as run:
        run.rule(f"{hooks.origin}/ok")
        run.tell("The first event.")
        hooks.until(1)
        first = run.sender._loop
        monkeypatch.setattr(first, "_run_once", lambda: (_ for _ in ()).throw(OSError("Too many open files")))
        run.tell("The second event.")
        hooks.until(2)
        assert run.sender._loop is not first


async def test_a_loop_that_cannot_be_made_at_once_is_made_later(
    tmp_path: Path, hooks: Receivers, faults: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "RESTART_S", 0.05)
    with sending(tmp_path, settings(hooks.origin)) as run:
        run.rule(f"{hooks.origin}/ok")
        run.tell("The first event.")
        hooks.until(1)
        make, refused = asyncio.new_event_loop, [OSError("Too many open files")] * 2

        def one_later() -> asyncio.AbstractEventLoop:
            if refused:
                raise refused.pop()
            return make()

        monkeypatch.setattr(asyncio, "new_event_loop", one_later)
        faults.append(RuntimeError("it breaks"))
        run.tell("The second event.")
        hooks.until(2)
        assert refused == []


async def test_a_confirmed_message_is_sent_once_though_the_sender_fails_before_it_is_stored(
    tmp_path: Path, hooks: Receivers, faults: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver, released = Channels.deliver, threading.Event()

    async def late(*args: Any) -> Attempt:
        attempt = await deliver(*args)
        await asyncio.to_thread(released.wait)
        return attempt

    monkeypatch.setattr(Channels, "deliver", late)
    with sending(tmp_path, settings(hooks.origin)) as run:
        rule = run.rule(f"{hooks.origin}/ok")
        run.tell("An event.")
        hooks.until(1)
        faults.append(RuntimeError("it breaks"))
        run.sender.wake([rule.id])
        await until(lambda: not faults)
        released.set()
        await until(lambda: run.sender.trouble == FAILED)
        await run.until(rule, "delivered")
    assert hooks.attempts == {"/ok": 1}


async def test_a_sender_can_be_closed_and_tested_while_it_is_broken(
    tmp_path: Path, hooks: Receivers, faults: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "RESTART_S", 600.0)
    with sending(tmp_path, settings(hooks.origin)) as run:
        rule = run.rule(f"{hooks.origin}/ok")
        faults.append(RuntimeError("it breaks"))
        run.sender.wake([rule.id])
        await until(lambda: run.sender.trouble == FAILED and run.sender._loop.is_closed())
        run.sender.wake([rule.id])
        message = OutboxMessage(0, "msg_1", rule.id, 0.0, 0, "pending", 0, 0.0, None, "", ())
        assert (await run.sender.test(rule, message)).sentence == FAILED
        run.sender.close()
        assert not run.sender._thread.is_alive()
    assert not any(each.name == "weir-notify" for each in threading.enumerate())


async def test_a_rule_that_cant_be_read_once_is_read_again(
    tmp_path: Path, hooks: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "STORE_RETRY_S", 0.05)
    with sending(tmp_path, settings(hooks.origin)) as run:
        run.rule(f"{hooks.origin}/ok")
        read, faults = run.store.outbox.rule, iter([OSError("the disk is away")])

        def once(id_: int) -> Any:
            for fault in faults:
                raise fault
            return read(id_)

        monkeypatch.setattr(run.store.outbox, "rule", once)
        run.tell("An event.")
        hooks.until(1)
