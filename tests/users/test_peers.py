"""Callers of the machine's socket: the kernel names the user, and nothing that a caller sends does."""

import http.client
import json
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.local.server.server_process import Serving, serving
from tools import prefork

from weir.client import address
from weir.client.api import Pool
from weir.client.errors import Unreachable

from .installed_server import Installed, UnixConnection, ask_socket, installed
from .unix_accounts import unix_group

IS_ROOT = os.getuid() == 0
SESSION = "/api/v1/dashboard/session"
WITHOUT_ACCOUNT = 54_321
FORGED = {
    "X-Weir-Uid": "0",
    "X-Remote-User": "root",
    "X-Forwarded-For": "unix:uid=0",
    "Forwarded": "for=unix",
    "Peer": "0",
    "Cookie": "weir_uid=0",
    "X-Weir-Proof": "uid:0",
}
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can ask as other users")


@pytest.fixture(scope="module")
def open_path() -> Iterator[Path]:
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="weir-t-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def admins(unix_users: list[pwd.struct_passwd]) -> Iterator[str]:
    with unix_group(unix_users[4].pw_name) as group:
        yield group


@pytest.fixture(scope="module")
def pool(open_path: Path, admins: str) -> Iterator[Installed]:
    with installed(open_path / "home", admin_group=admins) as server:
        yield server


@needs_root
class TestInstalled:
    def test_everyone_is_known_by_their_account(
        self, pool: Installed, unix_users: list[pwd.struct_passwd]
    ) -> None:
        for user in unix_users:
            status, person = pool.who(user.pw_uid)
            assert (status, person["user"]) == (200, user.pw_name)
            assert person["is_admin"] == (user == unix_users[4]), "a member of the group administers"
        assert pool.who(0)[1]["is_admin"]
        code = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
            f"s.sendall(b'GET {SESSION} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'); "
            "print(b''.join(iter(lambda: s.recv(4096), b'')).decode())"
        )
        mia = unix_users[0]
        answer = subprocess.run(
            ["/usr/bin/python3", "-c", code, str(pool.path)],
            user=mia.pw_uid,
            group=mia.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            cwd="/",
        )
        assert f'"user":"{mia.pw_name}"' in answer.stdout

    def test_users_without_an_account_are_refused_and_logged(self, pool: Installed) -> None:
        status, answer = pool.who(WITHOUT_ACCOUNT)
        assert status == 403
        assert answer["detail"] == (
            f"User id {WITHOUT_ACCOUNT} has no account on this machine: ask its administrator for one."
        )
        lines = [json.loads(each) for each in (pool.home / "audit.jsonl").read_text().splitlines()]
        mine = [line for line in lines if line.get("source", "").startswith(f"unix:uid={WITHOUT_ACCOUNT},")]
        assert {line["outcome"] for line in mine} == {"refused"}

    def test_user_of_another_namespace_is_no_one(self, pool: Installed) -> None:
        """The overflow uid may belong to an account."""
        overflow = int(Path("/proc/sys/kernel/overflowuid").read_text())
        assert pool.who(overflow)[0] == 401

    @pytest.mark.parametrize("name", FORGED)
    def test_headers_name_no_one(
        self, pool: Installed, unix_users: list[pwd.struct_passwd], name: str
    ) -> None:
        mia = unix_users[0]
        status, person = pool.who(mia.pw_uid, {name: FORGED[name]})
        assert (status, person["user"], person["is_admin"]) == (200, mia.pw_name, False)
        connection = http.client.HTTPConnection(pool.url.removeprefix("http://"), timeout=120)
        connection.request("GET", SESSION, headers={name: FORGED[name]})
        assert connection.getresponse().status == 401
        connection.close()

    @pytest.mark.parametrize("written", ["Bearer uid:0", "Bearer ", "Basic cm9vdDo=", "uid:0", "Bearer x"])
    def test_token_that_is_none_counts_before_the_peer(self, pool: Installed, written: str) -> None:
        assert pool.who(0, {"Authorization": written})[0] == 401

    def test_connection_keeps_its_user(self, pool: Installed, unix_users: list[pwd.struct_passwd]) -> None:
        """Requests behind one another, and a user who changes after connecting."""
        connection = UnixConnection(pool.path, unix_users[1].pw_uid, unix_users[1].pw_gid)
        for _ in range(3):
            connection.request("GET", SESSION, headers=FORGED)
            assert json.loads(connection.getresponse().read())["user"] == unix_users[1].pw_name
        connection.close()

    def test_members_submit_as_themselves(self, pool: Installed, unix_users: list[pwd.struct_passwd]) -> None:
        mia, ann = unix_users[0], unix_users[4]
        body = {"project": "default", "command": ["true"], "pods": [{"gpus": 1}]}
        status, made = pool.ask_as(ann.pw_uid, "POST", "/api/v1/workloads", {**body, "user": "root"})
        assert status == 422
        status, made = pool.ask_as(ann.pw_uid, "POST", "/api/v1/workloads", body)
        assert (status, made["user"]) == (201, ann.pw_name), made
        detail = pool.get(f"/api/v1/workloads/{made['name']}")
        assert detail["directory"] == ann.pw_dir
        status, answer = pool.ask_as(0, "POST", "/api/v1/workloads", body)
        assert (status, answer["detail"]) == (
            403,
            "No job runs as root: submit it as yourself, without sudo.",
        )
        for user, sentence in (("ghost", "no account on this machine"), ("root", "No job runs as root")):
            asked = {"user": user, "projects": ["default"]}
            token = pool.ask("POST", "/api/v1/tokens", asked)[1]["token"]
            status, answer = pool.ask("POST", "/api/v1/workloads", body, token)
            assert status == 403
            assert sentence in answer["detail"]
        asked = {"user": mia.pw_name, "projects": ["default"]}
        token = pool.ask("POST", "/api/v1/tokens", asked)[1]["token"]
        status, made = pool.ask("POST", "/api/v1/workloads", body, token)
        assert (status, made["user"]) == (201, mia.pw_name)

    def test_link_of_a_peer_signs_in_as_the_peer(
        self, pool: Installed, unix_users: list[pwd.struct_passwd]
    ) -> None:
        mia = unix_users[2]
        status, link = pool.ask_as(mia.pw_uid, "POST", "/api/v1/dashboard/links", {})
        assert status == 201
        connection = http.client.HTTPConnection(pool.url.removeprefix("http://"), timeout=120)
        body = json.dumps({"code": link["path"].partition("code=")[2]})
        connection.request("POST", "/api/v1/dashboard/sign-in", body)
        answer = connection.getresponse()
        person, cookie = json.loads(answer.read()), answer.getheader("set-cookie")
        assert (person["user"], person["is_admin"]) == (mia.pw_name, False)
        headers = {"Cookie": str(cookie).partition(";")[0], "X-Weir-Proof": person["proof"]}
        connection.request("GET", SESSION, headers=headers)
        assert json.loads(connection.getresponse().read())["user"] == mia.pw_name
        connection.close()

    def test_client_finds_the_pool_of_the_machine(
        self,
        pool: Installed,
        unix_users: list[pwd.struct_passwd],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for name in ("WEIR_URL", "WEIR_HOME", "WEIR_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(address, "MACHINE", tmp_path / "none")
        with pytest.raises(Unreachable, match="sudo weir install"):
            address.find()
        monkeypatch.setattr(address, "MACHINE", pool.path.parent)
        found = address.find()
        assert (found.home, found.token, found.url) == (pool.path.parent, None, pool.url)
        with Pool() as asking:
            assert asking.list() is not None
        personal = tmp_path / ".weir"
        personal.mkdir()
        (personal / "server.json").write_text('{"pid": 1, "url": "http://127.0.0.1:9", "socket": null}')
        (personal / "token").write_text("mine\n")
        assert address.find().token == "mine", "a pool of one's own comes first"
        monkeypatch.setenv("WEIR_URL", "http://127.0.0.1:10")
        assert address.find().url == "http://127.0.0.1:10"


def test_socket_lets_everyone_connect_and_no_one_write(pool: Installed) -> None:
    assert stat.S_IMODE(pool.path.stat().st_mode) == 0o666
    assert stat.S_IMODE(pool.path.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE((pool.path.parent / "server.json").stat().st_mode) == 0o644
    assert stat.S_IMODE(pool.home.stat().st_mode) == 0o700


def test_directory_of_the_socket_is_one_pools_own(pool: Installed, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    cases = (
        (pool.path, "another pool serves"),
        (shared / "weir.sock", "must belong to the pool's user"),
        (Path("/proc/nowhere/weir.sock"), "can't be used"),
        (tmp_path / "other.sock", "isn't called weir.sock"),
    )
    for path, sentence in cases:
        answer = _up(tmp_path / "home", f"installed=True, socket_path=Path({str(path)!r})")
        assert answer.returncode == 1, path
        assert sentence in answer.stderr, answer.stderr
    assert pool.who(0)[0] == 200 if IS_ROOT else True


def test_shared_account_is_named_by_who_accepts_it(tmp_path: Path) -> None:
    answer = _up(tmp_path / "home", "shared_account='daemon'")
    assert answer.returncode == 2
    own = pwd.getpwuid(os.getuid()).pw_name
    assert f"all jobs would run as {own}" in answer.stderr


def test_personal_pool_serves_its_owner_alone(open_path: Path) -> None:
    home, own = open_path / "personal", pwd.getpwuid(os.getuid()).pw_name
    with serving(home) as shared:
        token = shared.ask("POST", "/api/v1/tokens", {"user": "mia", "projects": ["default"]})[1]["token"]
        assert shared.ask("GET", "/api/v1/status", token=token)[0] == 200
        assert ask_socket(home / "weir.sock", os.getuid(), "GET", SESSION)[0] == 401, "jobs of others run"
    server = Serving(home, settings={})
    try:
        lines = [server.output.readline() for _ in range(5)]
        assert lines[4].startswith(f"It is a personal pool and serves {own} alone.")
        status, answer = server.ask("GET", "/api/v1/status", token=token)
        assert status == 403
        assert f"serves {own} alone, not mia. `sudo weir install`" in answer["detail"]
        status, answer = server.ask("POST", "/api/v1/tokens", {"user": "ben", "projects": ["default"]})
        assert status == 403
        assert "sudo weir install" in answer["detail"]
        assert server.ask("POST", "/api/v1/tokens", {"user": own, "role": "admin"})[0] == 201
        status, person = ask_socket(home / "weir.sock", os.getuid(), "GET", SESSION)
        assert (status, person["user"], person["is_admin"]) == (200, own, True)
        if IS_ROOT:
            home.chmod(0o755)
            (home / "weir.sock").chmod(0o666)  # as no server leaves it
            status, answer = ask_socket(home / "weir.sock", WITHOUT_ACCOUNT, "GET", SESSION)
            assert (status, answer["detail"][:22]) == (403, "This pool is personal:")
    finally:
        assert server.end() == 0


def _up(home: Path, settings: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from pathlib import Path; from weir.local.server.main import run; "
        "from weir.local.server.settings.server_settings import ServerSettings; "
        f"sys.exit(run(ServerSettings(home=Path({str(home)!r}), port=0, virtual_gpus=1, {settings})))"
    )
    return prefork.run([sys.executable, "-c", code])
