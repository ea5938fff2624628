"""A pool on another machine through OpenSSH: the kernel there names the user whom sshd let in."""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tools.controlplane.ports import free_port

from weir.client import ssh_tunnel
from weir.client.address import find
from weir.client.aio import AsyncPool
from weir.client.api import Pool
from weir.client.errors import Unreachable
from weir.client.ssh_tunnel import SshAddress, parse

from .installed_server import Installed, installed
from .shared_pool import until

SSHD = os.environ.get("WEIR_SSHD") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
CONFIG = """Host gpu1 gpu2
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {directory}/key
  IdentitiesOnly yes
  BatchMode yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
"""
SERVER = """Port {port}
ListenAddress 127.0.0.1
HostKey {directory}/host
AuthorizedKeysFile {directory}/key.pub
PidFile none
StrictModes no
UsePAM no
"""


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("ssh://gpu1", SshAddress("gpu1")),
        ("ssh://gpu1/", SshAddress("gpu1")),
        ("ssh://mia@gpu1:2222", SshAddress("gpu1", "mia", 2222)),
        ("ssh://Lab-GPU/home/mia/.weir/weir.sock", SshAddress("Lab-GPU", path="/home/mia/.weir/weir.sock")),
        ("ssh://mia@lab@gpu1", SshAddress("gpu1", "mia@lab")),
        ("ssh://[::1]:22", SshAddress("[::1]", port=22)),
    ],
)
def test_addresses_are_read(url: str, address: SshAddress) -> None:
    assert parse(url) == address


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ssh://",
            "ssh://-oProxyCommand=id",
            "ssh://-x@gpu1",
            "ssh://a b",
            "ssh://gpu1:0",
            "ssh://gpu1:70000",
        ),
        *(
            "ssh://gpu1/run/a:b",
            "ssh://gpu1/$(id)",
            "ssh://gpu1;id",
            "ssh://gpu1\n",
            "ssh://@gpu1",
            "ssh://gpu1?x",
        ),
    ],
)
def test_words_that_could_be_options_are_refused(url: str) -> None:
    with pytest.raises(Unreachable, match="is no address for ssh"):
        parse(url)


def test_directory_of_someone_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "weir-ssh").mkdir(mode=0o700)
    (tmp_path / "weir-ssh").chmod(0o777)
    with pytest.raises(Unreachable, match="directory of yours alone"):
        ssh_tunnel.directory_of(SshAddress("gpu1"))
    (tmp_path / "weir-ssh").rmdir()
    (tmp_path / "weir-ssh").symlink_to(tmp_path)
    with pytest.raises(Unreachable, match="directory of yours alone"):
        ssh_tunnel.directory_of(SshAddress("gpu1"))


@pytest.fixture(scope="module")
def remote(unix_users: list[pwd.struct_passwd]) -> Iterator[tuple[Installed, pwd.struct_passwd, Path]]:
    """A pool, an sshd that lets one of its users in, and the directory of a configuration for ssh."""
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("this machine has no OpenSSH server")
    mia = unix_users[0]
    with tempfile.TemporaryDirectory(prefix="weir-t-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for key in ("host", "key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / key)]
            subprocess.run(command, check=True)
        os.chown(directory / "host", mia.pw_uid, mia.pw_gid)
        port = free_port()
        words = {"port": port, "directory": directory, "user": mia.pw_name}
        (directory / "sshd_config").write_text(SERVER.format(**words))
        (directory / "config").write_text(CONFIG.format(**words))
        program = directory / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {directory}/config "$@"\n')
        program.chmod(0o755)
        server = subprocess.Popen(
            [SSHD, "-D", "-f", str(directory / "sshd_config")],
            user=mia.pw_uid,
            group=mia.pw_gid,
            extra_groups=[],
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        try:
            until(lambda: listens(server, port))
            (directory / "pool").mkdir()
            with installed(directory / "pool" / "home") as pool:
                yield pool, mia, directory
        finally:
            server.terminate()
            server.wait(120)


def listens(server: subprocess.Popen[bytes], port: int) -> bool:
    assert server.poll() is None, "sshd didn't begin"
    try:
        socket.create_connection(("127.0.0.1", port), 120).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def far(
    remote: tuple[Installed, pwd.struct_passwd, Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, pwd.struct_passwd, Path]]:
    """The address of the pool through ssh, its user there, and where connections are held."""
    pool, mia, directory = remote
    (directory / "run").mkdir(exist_ok=True)
    monkeypatch.setenv("PATH", f"{directory}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory / "run"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # never asked
    monkeypatch.delenv("WEIR_TOKEN", raising=False)
    yield f"ssh://gpu1{pool.path}", mia, directory
    for pid in _tunnels(directory):
        with suppress(ProcessLookupError):  # it may end by itself
            os.kill(pid, 15)
    until(lambda: not _tunnels(directory))


def _tunnels(directory: Path) -> list[int]:
    """Return the processes of ssh that hold connections of this test."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"-fnTx" in words and any(bytes(directory) in word for word in words):
            found.append(int(each.parent.name))
    return found


def test_user_of_ssh_is_the_user_of_the_pool(far: tuple[str, pwd.struct_passwd, Path]) -> None:
    url, mia, directory = far
    address = find(url)
    assert (address.is_loopback, address.token) == (False, None)
    with Pool(url) as pool:
        made = pool.submit(project="default", command=["true"], gpus=1, directory="/tmp")
        assert made.user == mia.pw_name
        (held,) = _tunnels(directory)
        with Pool(url) as again:
            assert again.get(made.name).user == mia.pw_name
        assert _tunnels(directory) == [held], "the second command uses the connection of the first"


async def test_connection_that_ended_is_made_again(
    far: tuple[str, pwd.struct_passwd, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, directory = far
    monkeypatch.setattr("weir.client.transport._SILENT_S", 0.0)
    async with AsyncPool(url) as pool:
        await pool.status()
        (held,) = _tunnels(directory)
        os.kill(held, 9)
        while held in _tunnels(directory):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with suppress(Unreachable):  # the connection that it kept may break first
            await pool.status()
        await pool.status()
        assert _tunnels(directory) not in ([], [held])


def test_what_is_wrong_is_one_sentence(far: tuple[str, pwd.struct_passwd, Path]) -> None:
    url, _, directory = far
    with Pool(f"ssh://gpu2{directory}/none.sock") as pool, pytest.raises(Unreachable) as none:
        pool.status()
    assert "No pool answers at" in str(none.value)
    with pytest.raises(Unreachable, match="ssh can't connect to nobody@gpu1: "):
        Pool(url.replace("ssh://", "ssh://nobody@"))
