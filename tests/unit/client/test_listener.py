"""A token goes to the pool's own server: over the socket in its home, or to a port whose listener is known."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.unit.client.fake import Fake

from weir.cli.help.completion import complete
from weir.client import AsyncPool, Pool, Unreachable, listener
from weir.client.address import find

OTHER_UID = 65534
IS_ROOT = os.getuid() == 0
_LISTENS = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
listening = socket.socket(socket.AF_UNIX if sys.argv[2] == "unix" else socket.AF_INET)
listening.bind(sys.argv[3] if sys.argv[2] == "unix" else ("127.0.0.1", 0))
listening.listen()
print(listening.getsockname()[1], flush=True)
while True:
    connection, _ = listening.accept()
    connection.settimeout(120)
    print(connection.recv(4096), flush=True)
    connection.close()
"""


@contextmanager
def stranger(
    monkeypatch: pytest.MonkeyPatch, kind: str = "inet", path: str = ""
) -> Iterator[tuple[int, list[str]]]:
    """A program of another user that listens: its port, and what it was sent once it is over.

    Only root can start one; for anyone else this process takes itself for another user.
    """
    uid = OTHER_UID if IS_ROOT else os.getuid()
    if not IS_ROOT:
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    heard: list[str] = []
    command = [sys.executable, "-c", _LISTENS, str(uid), kind, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reply = process.stdout.readline().strip()
        try:
            yield (int(reply) if kind == "inet" else 0), heard
        finally:
            process.kill()
            heard += process.stdout.read().splitlines()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose server was killed: what it wrote is there, and its socket."""
    directory = tmp_path / "home"
    directory.mkdir(0o755)
    for name in ("WEIR_URL", "WEIR_TOKEN", "WEIR_SERVER_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WEIR_HOME", str(directory))
    (directory / "server.json").write_text(
        '{"pid": 1, "url": "http://127.0.0.1:9347", "socket": "weir.sock"}'
    )
    (directory / "token").write_text("secret\n")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory / "weir.sock"))
    return directory


def test_nothing_is_sent_to_a_port_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIR_SERVER_USER", raising=False)
    with stranger(monkeypatch) as (port, heard):
        for host in ("127.0.0.1", "localhost", "127.0.1", "2130706433"):
            with Pool(f"http://{host}:{port}", "secret") as pool, pytest.raises(Unreachable) as refused:
                pool.status()
            assert "no token is sent there" in str(refused.value)
            assert "WEIR_SERVER_USER=" in str(refused.value)
    assert not any("secret" in text for text in heard)


async def test_nothing_is_sent_by_a_client_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIR_SERVER_USER", raising=False)
    with stranger(monkeypatch) as (port, heard):
        async with AsyncPool(f"http://127.0.0.1:{port}", "secret") as pool:
            with pytest.raises(Unreachable, match="no token is sent there"):
                await pool.status()
    assert not any("secret" in text for text in heard)


def test_nothing_is_sent_while_a_word_is_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with stranger(monkeypatch) as (port, heard):
        monkeypatch.setenv("WEIR_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("WEIR_TOKEN", "secret")
        assert complete(["describe", ""]) == 0
    assert capsys.readouterr().out == ""
    assert not any("secret" in text for text in heard)


def test_who_runs_the_pool_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for named in (str(OTHER_UID if IS_ROOT else os.getuid()), "any"):
        monkeypatch.setenv("WEIR_SERVER_USER", named)
        with (
            stranger(monkeypatch) as (port, heard),
            Pool(f"http://127.0.0.1:{port}", "secret") as pool,
            pytest.raises(Unreachable, match="broke"),
        ):
            pool.status()
        assert any("secret" in text for text in heard)
    monkeypatch.setenv("WEIR_SERVER_USER", "no-such-user")
    with pytest.raises(Unreachable, match="'no-such-user', no user of this machine"):
        find("http://127.0.0.1:1")


def test_a_listener_on_all_addresses_is_known_too() -> None:
    for family, address, to in (
        (socket.AF_INET, "0.0.0.0", "127.0.0.1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
    ):
        with ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family))
            try:
                listening.bind((address, 0))
            except OSError:
                continue  # a machine without IPv6
            listening.listen()
            port = listening.getsockname()[1]
            connected = stack.enter_context(socket.create_connection((to, port)))
            assert listener._uids_of(connected) == {os.getuid()}


def test_a_connection_to_another_machine_is_not_looked_up() -> None:
    class Elsewhere:
        family = socket.AF_INET

        def getsockname(self) -> tuple[str, int]:
            return "10.0.0.1", 40000

        def getpeername(self) -> tuple[str, int]:
            return "10.0.0.2", 80

    listener.check(Elsewhere(), frozenset(), "http://10.0.0.2")  # type: ignore[arg-type]


def test_a_listener_that_is_not_found_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_rows", lambda _port: [])
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as connected,
        pytest.raises(Unreachable, match="WEIR_SERVER_USER=any"),
    ):
        listener.check(connected, frozenset(), "http://127.0.0.1")


# The home


def test_a_server_that_was_killed_is_said_to_be_gone(home: Path) -> None:
    with Pool() as pool, pytest.raises(Unreachable) as refused:
        pool.status()
    assert str(refused.value) == (
        f"The pool in {home} doesn't run any more: start it again with `weir up`; its jobs run on."
    )


async def test_a_server_that_was_killed_is_gone_for_a_client_that_does_not_wait(home: Path) -> None:
    async with AsyncPool() as pool:
        with pytest.raises(Unreachable, match="doesn't run any more"):
            await pool.status()


def test_the_port_in_a_home_whose_server_was_killed_is_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stranger(monkeypatch) as (port, heard):
        monkeypatch.undo()
        monkeypatch.setenv("WEIR_HOME", str(home))
        for name in ("WEIR_URL", "WEIR_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        (home / "server.json").write_text(
            f'{{"pid": 1, "url": "http://127.0.0.1:{port}", "socket": "weir.sock"}}'
        )
        with Pool() as pool, pytest.raises(Unreachable, match="doesn't run any more"):
            pool.status()
    assert heard == []


def test_the_socket_of_a_long_home_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = home.joinpath(*["a" * 60] * 3)
    deep.mkdir(parents=True)
    for name in ("server.json", "token"):
        shutil.copy(home / name, deep / name)
    monkeypatch.setenv("WEIR_HOME", str(deep))
    heard = []
    descriptor = os.open(deep, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{descriptor}/weir.sock")
        os.close(descriptor)
        listening.listen()

        def answer() -> None:
            while not heard:
                connection, _ = listening.accept()
                with connection:
                    if not (reply := connection.recv(4096)):
                        continue
                    heard.append(reply)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnoth")

        thread = threading.Thread(target=answer)
        thread.start()
        with Pool() as pool:
            assert pool.snapshot() == "noth"
        thread.join()
    assert b"Bearer secret" in heard[0]


@pytest.mark.skipif(not IS_ROOT, reason="only root can have files of others made")
class TestOthers:
    def test_a_socket_of_another_user_gets_nothing(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (home / "weir.sock").unlink()
        with tempfile.TemporaryDirectory() as directory:
            open_to_all = Path(directory, "home")
            shutil.copytree(home, open_to_all)
            Path(directory).chmod(0o755)
            open_to_all.chmod(0o777)
            monkeypatch.setenv("WEIR_HOME", str(open_to_all))
            with (
                stranger(monkeypatch, "unix", str(open_to_all / "weir.sock")) as (_, heard),
                Pool() as pool,
                pytest.raises(Unreachable, match="user nobody, so no token is sent there"),
            ):
                pool.status()
        assert not any("secret" in text for text in heard)

    def test_files_of_another_user_in_a_home_do_not_count(
        self, home: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("WEIR_URL")
        monkeypatch.setenv("WEIR_HOME", str(home))
        (home / "server.json").write_text(f'{{"pid": 1, "url": "{fake.url}"}}')
        os.chown(home / "server.json", OTHER_UID, OTHER_UID)
        with pytest.raises(Unreachable, match="no file of the pool but of user nobody"):
            find()
        (home / "server.json").unlink()
        (home / "server.json").symlink_to("/etc/passwd")
        with pytest.raises(Unreachable, match="can't be read"):
            find()

    def test_a_home_of_another_user_is_asked_only_if_they_run_the_pool(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for path in (home, home / "server.json", home / "token"):
            os.chown(path, OTHER_UID, OTHER_UID)
        with pytest.raises(Unreachable, match="belongs to user nobody"):
            find()
        monkeypatch.setenv("WEIR_SERVER_USER", "nobody")
        assert find().uids == {OTHER_UID}


def test_a_client_without_a_token_learns_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEIR_URL", raising=False)
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "none"))
    with pytest.raises(Unreachable) as refused:
        find()
    reply = str(refused.value)
    assert "set WEIR_URL and WEIR_TOKEN" in reply
    assert "`weir token create`" in reply
    assert reply.index("WEIR_TOKEN") < reply.index("weir up")


def test_a_pool_of_others_is_not_advised_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # so that no one else can listen there
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with (
            Pool(url, "secret") as pool,
            pytest.raises(Unreachable, match="ask its administrator to start it"),
        ):
            pool.status()
