"""Signs of people in workloads: noted ones, and entries that are followed by their terminals."""

import os
import pty
import subprocess
import time
from collections.abc import Iterator

import pytest

from weir.local.server.views.interactions import Interactions
from weir.model.activity import Interaction


@pytest.fixture
def shell() -> Iterator[tuple[int, str]]:
    """A process on a terminal of its own; its number, and the terminal."""
    ours, theirs = pty.openpty()
    name = os.ttyname(theirs)
    command = ["setsid", "--ctty", "--wait", "sleep", "600"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    pid = process.pid
    until = time.monotonic() + 60
    while (child := _child(pid)) is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    yield child, name
    for each in (child, pid):
        os.kill(each, 9)
    process.wait()
    os.close(ours)
    os.close(theirs)


def _child(pid: int) -> int | None:
    """Return the child that runs `sleep`, if setsid forked, or the process itself once it runs it."""
    for each in (pid, *_children(pid)):
        with open(f"/proc/{each}/comm") as file:  # noqa: PTH123 - a plain call
            if file.read().strip() == "sleep":
                return each
    return None


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123 - a plain call
        return [int(each) for each in file.read().split()]


def test_noted_signs_only_move_forward() -> None:
    signs = Interactions()
    assert signs.look(1, (), 5.0) == Interaction()
    signs.note(1, 100.0, connections=2)
    signs.note(1, 50.0)
    assert signs.look(1, (), 200.0) == Interaction(100.0, 2)
    signs.note(1, 300.0, connections=0)
    assert signs.look(1, (), 400.0) == Interaction(300.0, 0)
    signs.keep([2])
    assert signs.look(1, (), 500.0) == Interaction()


def test_an_entered_session_is_a_connection_and_each_key_a_sign(shell: tuple[int, str]) -> None:
    pid, terminal = shell
    signs = Interactions()
    assert signs.look(7, [pid], 20.0) == Interaction(20.0, 1)
    assert signs.look(7, [pid], 25.0) == Interaction(20.0, 1)
    os.utime(terminal, (time.time() + 60, time.time() + 60))  # as the kernel does at a key
    assert signs.look(7, [pid], 30.0) == Interaction(30.0, 1)
    assert signs.look(7, [pid], 40.0) == Interaction(30.0, 1)
    assert signs.look(7, [], 50.0) == Interaction(50.0, 0)
    assert signs.look(7, [], 60.0) == Interaction(50.0, 0)


def test_an_entered_process_without_a_terminal_is_a_connection_alone() -> None:
    signs = Interactions()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        assert signs.look(7, [process.pid], 20.0) == Interaction(None, 1)
        process.kill()
        process.wait()
        assert signs.look(7, [process.pid], 30.0) == Interaction(None, 0)
