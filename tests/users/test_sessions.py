"""Sessions of a pool for several users: SSH goes on without the server, and others reach nothing of it."""

import http.client
import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import pytest

from .conftest import People
from .shared_pool import LIMIT_S, ROOT, SharedPool, until
from .ssh_client import begin_ssh, make_config

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="sshd is missing (apt-get install openssh-server)")


def test_ssh_is_inside_the_job_and_goes_on_without_server_and_node(
    pool: SharedPool, unix_users: People, gpu_files: list[Path]
) -> None:
    user = unix_users[0]
    pool.submit(user, "notebook", "sleep", "3600", type="build")
    device = pool.wait("notebook", "running")["pod_rows"][0]["devices"][0]
    make_config(pool, user)
    own, other = gpu_files if device == 0 else gpu_files[::-1]
    script = f"id -un; echo $WEIR_WORKLOAD; head -c1 {own} | wc -c; head -c1 {other} 2>/dev/null | wc -c; cat /proc/self/cgroup"
    output, errors = begin_ssh(pool, user, "notebook", script).communicate(timeout=LIMIT_S)
    lines = output.decode().split("\n")
    assert lines[:4] == [user.pw_name, "notebook", "1", "0"], errors
    assert any(line.endswith(".1-0-0") for line in lines[4:])
    connection = begin_ssh(pool, user, "notebook", "cat")
    assert connection.stdin is not None
    assert connection.stdout is not None
    try:
        for word in (b"before\n", b"after\n"):
            connection.stdin.write(word)
            assert connection.stdout.read(len(word)) == word
            if word == b"before\n":
                pool.kill(node=True, server=True)
        pool.ask(user, "POST", "/api/v1/workloads/notebook/stop")
        pool.wait("notebook", "stopped")
        assert connection.wait(LIMIT_S) != 0
    finally:
        connection.kill()
        connection.communicate(timeout=LIMIT_S)


def test_another_user_reaches_nothing_of_a_session(pool: SharedPool, unix_users: People) -> None:
    user, other = unix_users[:2]
    pool.submit(user, "private", "sleep", "3600", type="build", env={"API_KEY": "of-the-owner"})
    pool.wait("private", "running")
    make_config(pool, user)
    make_config(pool, other)
    connection = begin_ssh(pool, user, "private", "echo $$; cat")
    assert connection.stdin is not None
    assert connection.stdout is not None
    try:
        pid = int(connection.stdout.readline())
        client = Path(user.pw_dir, ".local/state/weir/sessions/weir-private")
        (directory,) = (pool.home / "jobs" / str(pool.row("private")["uid"])).glob("*/session")
        assert (client / "client_key").stat().st_uid == user.pw_uid
        reads = [str(client / "client_key"), *(str(directory / name) for name in ("host_key", "sshd_config"))]
        reads += [f"/proc/{each}/environ" for each in (pid, *_ancestors(pid))]
        script = "; ".join(f"cat {path} && echo READ" for path in reads)
        script += f"; ls {directory} {directory.parent} && echo READ; kill -0 {pid} && echo SIGNALLED"
        done = subprocess.run(
            ["sh", "-c", script],
            user=other.pw_uid,
            group=other.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.stdout == ""
        assert done.stderr.count("ermi") >= len(reads)
        refused = begin_ssh(pool, other, "private", "true")
        _, errors = refused.communicate(timeout=LIMIT_S)
        assert refused.returncode != 0
        assert b"only that user" in errors, errors
        assert not _listens(user.pw_uid), "a session has no port and no socket"
        assert pool.weir(other, "shell", "private").returncode != 0
        assert "of-the-owner" not in "".join(map(str, pool.ask(other, "GET", "/api/v1/workloads/private")))
    finally:
        connection.kill()
        connection.communicate(timeout=LIMIT_S)
        pool.ask(user, "POST", "/api/v1/workloads/private/stop")
    pool.wait("private", "stopped")
    until(lambda: not directory.exists())


def test_a_program_in_a_browser_is_reached_by_its_user_through_the_server_alone(
    pool: SharedPool, unix_users: People
) -> None:
    user, other = unix_users[:2]
    program = (Path(__file__).parents[1] / "e2e" / "session_program.py").read_text()
    pool.submit(user, "browsed", pool.python, "-I", "-c", program, type="build", session="jupyter")
    pool.wait("browsed", "running")
    link = "/api/v1/workloads/browsed/session"
    until(
        lambda: pool.ask(user, "POST", link)[0] == 201,
        lambda: (pool.ask(user, "POST", link), pool.log("browsed")),
    )
    for person in (other, ROOT):
        status, answer = pool.ask(person, "POST", link)
        assert (status, "only that user" in answer["detail"]) == (403, True), answer
    opened = urlsplit(pool.ask(user, "POST", link)[1]["url"])
    answer = _get(opened, f"{opened.path}?{opened.query}")
    assert answer.status == 303
    cookie = str(answer.getheader("Set-Cookie")).partition(";")[0]
    told = json.loads(_get(opened, "/sessions/browsed/x", {"Cookie": cookie}).read())
    assert told["line"] == "GET /sessions/browsed/x HTTP/1.1"
    assert _get(opened, "/sessions/browsed/x").status == 401
    taken = (  # browsers send a cookie to all ports of its host
        f"import http.client; at = http.client.HTTPConnection({opened.hostname!r}, {opened.port}); "
        f"at.request('GET', '/sessions/browsed/x', headers={{'Cookie': {cookie!r}}}); "
        "print(at.getresponse().status)"
    )
    for person, status in ((ROOT, "200"), (other, "401")):
        done = subprocess.run(
            [pool.python, "-I", "-c", taken],
            user=person.pw_uid,
            group=person.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.stdout.strip() == status, done.stderr
    socket_path = next(word.partition("=")[2] for word in told["args"] if "ServerApp.sock=" in word)
    tries = f"import socket; socket.socket(socket.AF_UNIX).connect({socket_path!r})"
    for person, code in ((user, 0), (other, 1)):
        done = subprocess.run(
            [pool.python, "-I", "-c", tries],
            user=person.pw_uid,
            group=person.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == code, done.stderr
    pool.ask(user, "POST", "/api/v1/workloads/browsed/stop")
    pool.wait("browsed", "stopped")
    assert _get(opened, "/sessions/browsed/x", {"Cookie": cookie}).status == 404


def _get(at: SplitResult, path: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
    """Return the answer of a person's own address of sessions."""
    connection = http.client.HTTPConnection(str(at.hostname), at.port, timeout=LIMIT_S)
    connection.request("GET", path, headers={**(headers or {}), "Connection": "close"})
    return connection.getresponse()


def _ancestors(pid: int) -> list[int]:
    """Return the processes of sshd above a process."""
    found = []
    while (pid := SharedPool.parent_of(pid)) > 1 and "ssh" in Path(f"/proc/{pid}/comm").read_text():
        found.append(pid)
    return found


def _listens(uid: int) -> bool:
    """Return True if a user listens on a port."""
    files = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    for each in filter(Path.exists, files):  # a kernel may have no IPv6
        for line in each.read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[7]) == uid:
                return True
    return False
