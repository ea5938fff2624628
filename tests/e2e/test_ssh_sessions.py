"""OpenSSH reaches a workload by its name, without a port, and without the server once it is connected."""

import fcntl
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.e2e.ssh_session import (
    LIMIT_S,
    Person,
    connected,
    ended,
    read_until,
    received,
    until,
    words_of,
)
from tests.session_programs import NEEDS_RSYNC, NEEDS_SSH
from tests.unit.local.server.server_process import serving
from tools.controlplane.ports import free_port

pytestmark = NEEDS_SSH


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with serving(tmp_path_factory.mktemp("pool") / "home", settings={}) as server:
        person = Person(server, tmp_path_factory.mktemp("person"))
        done = person.weir("ssh", "dev", "--gpus", "1", "--", "true")
        assert done.returncode == 0, done.stderr
        yield person


def client_files(person: Person, name: str) -> Path:
    """Return the directory with the client's files of a session."""
    return person.home / ".local/state/weir/sessions" / f"weir-{name}"


def session_of(person: Person, name: str) -> Path:
    """Return the directory of a session in the directory of its pod."""
    uid = person.server.get(f"/api/v1/workloads/{name}")["uid"]
    (directory,) = (person.server.home / "jobs" / str(uid)).glob("*/session")
    return directory


def test_a_login_has_the_environment_of_the_workload(person: Person) -> None:
    device = person.server.get("/api/v1/workloads/dev")["pod_rows"][0]["devices"][0]
    done = person.ssh("weir-dev", "echo $WEIR_WORKLOAD $CUDA_VISIBLE_DEVICES $WEIR_POD_ID")
    uid = person.server.get("/api/v1/workloads/dev")["uid"]
    assert words_of(done) == ["dev", str(device), f"{uid}/1-0-0"]


def test_a_second_command_attaches_and_keeps_the_options(person: Person) -> None:
    done = person.weir("ssh", "dev", "--gpus", "3", "--", "echo", "here")
    assert words_of(done) == ["here"]
    assert "dev is there already" in done.stderr
    assert person.server.get("/api/v1/workloads/dev")["devices"] == 1


def test_a_shell_runs_a_command_in_place_of_itself(person: Person) -> None:
    done = person.weir("shell", "dev", "--", "sh", "-c", 'echo "$WEIR_WORKLOAD $0"; exit 3', "two words")
    assert (done.stdout, done.returncode) == ("dev two words\n", 3)


def test_keys_are_for_their_owner_alone(person: Person) -> None:
    directory, client = session_of(person, "dev"), client_files(person, "dev")
    private = [client / "client_key", directory / "host_key", directory / "sshd_config"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in (directory, client)} == {0o700}
    assert {stat.S_IMODE(each.stat().st_mode) for each in private} == {0o600}
    assert not (directory / "client_key").exists(), "a container has no need of it"


def test_a_workload_that_no_session_command_made_is_reached_too(person: Person) -> None:
    person.server.submit("sleep", "600", name="plain", gpus=0)
    assert words_of(person.ssh("weir-plain", "echo $WEIR_WORKLOAD")) == ["plain"]


def test_files_are_copied(person: Person, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "one").write_bytes(content)
    options = ("-F", str(person.config))
    done = person.run("scp", *options, str(tmp_path / "one"), f"weir-dev:{tmp_path}/two")
    assert done.returncode == 0, done.stderr
    done = person.run("sftp", *options, "-b", "-", "weir-dev", text=f"get {tmp_path}/two {tmp_path}/three\n")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "three").read_bytes() == content


@NEEDS_RSYNC
def test_directories_are_synchronised(person: Person, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    for at in range(20):
        (tmp_path / "from" / f"file{at}").write_text(str(at))
    shell = f"ssh -F {person.config}"
    done = person.run("rsync", "-a", "-e", shell, f"{tmp_path}/from/", f"weir-dev:{tmp_path}/to/")
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in (tmp_path / "to").iterdir()) == sorted(
        f"file{at}" for at in range(20)
    )


def test_ports_and_sockets_are_forwarded_both_ways(person: Person, tmp_path: Path) -> None:
    echo = _echo_server()
    local, back = free_port(), free_port()
    there = f"127.0.0.1:{echo}"
    forwards = ["-L", f"{local}:{there}", "-L", f"{tmp_path}/s:{there}", "-R", f"127.0.0.1:{back}:{there}"]
    with ended(person.begin_ssh("-N", "-o", "ExitOnForwardFailure=yes", *forwards, "weir-dev")):
        for address in (("127.0.0.1", local), f"{tmp_path}/s", ("127.0.0.1", back)):
            with connected(address) as stream:
                stream.sendall(b"through")
                assert received(stream, 7) == b"through"


def test_a_dynamic_forward_is_a_socks_proxy(person: Person) -> None:
    echo, proxy = _echo_server(), free_port()
    with ended(person.begin_ssh("-N", "-D", f"127.0.0.1:{proxy}", "weir-dev")), _socks(proxy, echo) as stream:
        stream.sendall(b"through")
        assert received(stream, 7) == b"through"


def test_a_terminal_follows_the_size_of_its_window(person: Person) -> None:
    command = "while stty size; do sleep 0.1; done"
    process, terminal = person.on_terminal("ssh", "-tt", "-F", str(person.config), "weir-dev", command)
    with ended(process):
        try:
            for rows, columns in ((41, 137), (52, 99)):
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
                os.killpg(process.pid, signal.SIGWINCH)
                read_until(terminal, f"{rows} {columns}".encode())
        finally:
            os.close(terminal)


def test_the_steps_of_an_editor_that_installs_its_server(person: Person, tmp_path: Path) -> None:
    """A script comes by the standard input, puts a server up, and the editor reaches it by the SOCKS proxy."""
    server = tmp_path / "server.py"
    server.write_text(
        "import http.server, os, sys\n"
        "made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "print(made.server_port, file=open(sys.argv[1], 'w'), flush=True)\n"
        "made.serve_forever()\n"
    )
    place = tmp_path / "remote"
    script = (
        f"uname -s; mkdir -p {place} && cd {place}\n"
        f"cp {server} {place}/server.py; echo $WEIR_WORKLOAD > {place}/marker\n"
        f"nohup setsid python3 {place}/server.py {place}/port > /dev/null 2>&1 < /dev/null &\n"
        f"echo $! > {place}/pid\n"
        f"until [ -s {place}/port ]; do sleep 0.05; done\n"
        f"echo listeningOn==$(cat {place}/port)==\n"
    )
    proxy = free_port()
    editor = person.begin_ssh(
        "-T", "-D", f"127.0.0.1:{proxy}", "-o", "ConnectTimeout=180", "weir-dev", "bash"
    )
    with ended(editor):
        assert editor.stdin is not None
        assert editor.stdout is not None
        editor.stdin.write(script.encode())
        said = read_until(editor.stdout.fileno(), b"==\n").decode()
        assert said.startswith("Linux\n")
        port = int(said.split("==")[1])
        with _socks(proxy, port) as stream:
            stream.sendall(b"GET /marker HTTP/1.0\r\n\r\n")
            answer = b""
            while part := stream.recv(4096):
                answer += part
            assert answer.endswith(b"dev\n"), answer
    pid = int((place / "pid").read_text())
    assert Path(f"/proc/{pid}").exists(), "the server of an editor stays for its next connection"
    person.server.ask("POST", "/api/v1/workloads/dev/stop")
    person.server.until("dev", "stopped")
    if any("weir" in line for line in Path("/proc/self/cgroup").read_text().splitlines()):
        until(lambda: not Path(f"/proc/{pid}").exists())
    else:
        os.kill(pid, signal.SIGKILL)
    assert words_of(person.weir("ssh", "dev", "--gpus", "1", "--", "echo", "new")) == ["new"]


def test_a_connection_goes_on_while_the_server_is_killed(person: Person) -> None:
    with ended(person.begin_ssh("weir-dev", "cat")) as connection:
        assert connection.stdin is not None
        assert connection.stdout is not None
        for phase in ("before", "without", "after"):
            if phase == "without":
                person.server.end(signal.SIGKILL)
            elif phase == "after":
                person.server.begin()
            connection.stdin.write(f"{phase}\n".encode())
            assert connection.stdout.read(len(phase) + 1) == f"{phase}\n".encode()
    assert words_of(person.ssh("weir-dev", "echo again")) == ["again"]


def test_the_end_of_the_workload_ends_connections_and_deletes_keys(person: Person) -> None:
    person.server.submit("sleep", "600", name="short", gpus=0)
    with ended(person.begin_ssh("weir-short", "cat")) as connection:
        assert connection.stdin is not None
        assert connection.stdout is not None
        connection.stdin.write(b"x\n")
        assert connection.stdout.read(2) == b"x\n"
        directory = session_of(person, "short")
        assert (directory / "host_key").exists()
        assert (client_files(person, "short") / "client_key").exists()
        person.server.ask("POST", "/api/v1/workloads/short/stop")
        assert connection.wait(LIMIT_S) != 0
        person.server.until("short", "stopped")
    until(lambda: not directory.exists())
    done = person.ssh("weir-short", "true")
    assert done.returncode != 0
    assert "there is no workload short: `weir ssh short` makes one" in done.stderr
    assert words_of(person.weir("ssh", "dev", "--", "echo", "here")) == ["here"]
    assert not client_files(person, "short").exists(), "the next session deletes them"


@pytest.mark.parametrize("kind", ["fifo", "link", "huge"])
def test_a_login_reads_no_file_that_the_workload_made(person: Person, kind: str) -> None:
    directory = session_of(person, "dev")
    for name in ("client_key", "client_key.pub", "known_hosts", "host_key", "host_key.pub"):
        path = directory / name
        path.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "link":
            path.symlink_to("/dev/zero")
        else:
            path.touch()
            os.truncate(path, 1 << 30)
    assert words_of(person.ssh("weir-dev", "echo again")) == ["again"]
    for name in ("client_key", "known_hosts"):
        (directory / name).unlink()


def test_a_session_says_why_it_waits_and_is_stopped_with_its_command(person: Person) -> None:
    person.server.submit("sleep", "600", name="all", gpus=3, type="build")
    person.server.until("all", "running")
    words = (sys.executable, "-P", "-m", "weir", "shell", "later", "--gpus", "2")
    process, terminal = person.on_terminal(*words)
    with ended(process):
        read_until(terminal, b"queued later", b"4 of 4 GPUs")
        assert _interrupted(process) != 0
        os.close(terminal)
    person.server.until("later", "stopped")
    person.server.ask("POST", "/api/v1/workloads/all/stop")


def _interrupted(process: subprocess.Popen[bytes]) -> int:
    """Press ctrl-C, again after a while: Python drops an interrupt that comes inside a finalizer. Return the status."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(LIMIT_S / 2)
    raise AssertionError("the command ignores ctrl-C")


def _echo_server() -> int:
    """Return the port of a server that sends back what it gets, for as long as the tests run."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            stream, _ = listening.accept()
            threading.Thread(target=_echo, args=(stream,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    port: int = listening.getsockname()[1]
    return port


def _echo(stream: socket.socket) -> None:
    with stream:
        while part := stream.recv(4096):
            stream.sendall(part)


def _socks(proxy: int, port: int) -> socket.socket:
    """Return a connection to a port of loopback through a SOCKS proxy."""
    stream = connected(("127.0.0.1", proxy))
    stream.sendall(b"\x05\x01\x00")
    assert received(stream, 2) == b"\x05\x00"
    stream.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + struct.pack(">H", port))
    assert received(stream, 10)[1] == 0
    return stream
