"""SSH into containers, by the sshd of their image, with Podman and an image made on the spot."""

import os
import pwd
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools.controlplane.ports import free_port

from .conftest import People
from .shared_pool import LIMIT_S, SharedPool, until
from .ssh_client import begin, begin_ssh, make_config
from .tiny_image import docker_archive, require_podman

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="sshd is missing (apt-get install openssh-server)")
HELPERS = Path("/usr/lib/openssh")
"""Directory of programs that newer sshd start."""


@pytest.fixture(scope="module", autouse=True)
def _podman() -> None:
    require_podman()


@pytest.fixture(scope="module")
def image(places: Path) -> str:
    assert SSHD is not None
    locked = places / "shadow"
    locked.write_text("root:!:20000:0:99999:7:::\n")
    programs = {"usr/sbin/sshd": Path(SSHD), "etc/shadow": locked}
    for name in ("bash", "stty", "tty", "uname", "nohup", "setsid", "sleep", "ln"):
        programs[f"bin/{name}"] = Path(str(shutil.which(name)))
    for path in HELPERS.glob("sshd-*"):
        programs[str(path).lstrip("/")] = path
    return docker_archive(places / "ssh.tar", "localhost/ssh:1", programs)


@contextmanager
def session(pool: SharedPool, user: pwd.struct_passwd, name: str, image: str) -> Iterator[None]:
    """Run a workload in a container, which may still get its image, until the block ends."""
    pool.submit(user, name, "sleep", "3600", image=image, type="build", gpus=0)
    try:
        pool.wait(name, "running")
        make_config(pool, user)
        yield
    finally:
        pool.ask(user, "POST", f"/api/v1/workloads/{name}/stop")
        pool.wait(name, "stopped")


def output_of(process: "subprocess.Popen[bytes]", text: bytes = b"", *, code: int = 0) -> str:
    """Return the output of a program once it ended with this exit code."""
    output, errors = process.communicate(text, timeout=LIMIT_S)
    assert process.returncode == code, (output, errors)
    return output.decode() if code == 0 else output.decode() + errors.decode()


def test_a_login_is_that_of_exec_and_has_the_variables_of_the_container(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[0]
    with session(pool, user, "boxed", image):
        script = "id -u; echo $OF_IMAGE $WEIR_WORKLOAD $USER $HOME $PATH; cat /etc/owned-by-another; exit 7"
        said = output_of(begin_ssh(pool, user, "boxed", script), code=7).split()
        assert said[:7] == ["0", "yes", "boxed", "root", "/", "/bin", "kept"], said
        beside = pool.weir(user, "exec", "boxed", "--", "cat", "/proc/self/cgroup").stdout
        assert output_of(begin_ssh(pool, user, "boxed", "cat /proc/self/cgroup")) == beside
        looks = "cat /proc/1/environ >/dev/null && ls -l /proc/1/fd/1 >/dev/null && echo traces"
        assert output_of(begin_ssh(pool, user, "boxed", looks)) == "traces\n", (
            "a debugger reaches the command"
        )
        (directory,) = (pool.home / "jobs" / str(pool.row("boxed")["uid"])).glob("*/session")
        client = Path(user.pw_dir, ".local/state/weir/sessions/weir-boxed")
        names = (directory / "host_key", directory / "sshd_config", client / "client_key")
        private = (directory, client, *names)
        assert {each.stat().st_mode & 0o077 for each in private} == {0}
        assert not list(directory.glob("tmp*"))
    until(lambda: not directory.exists())


def test_files_and_ports_go_through_and_a_terminal_has_its_name(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user, content = unix_users[1], os.urandom(300_000)
    with session(pool, user, "through", image):
        Path(user.pw_dir, "one").write_bytes(content)
        output_of(begin(pool, user, "scp", "one", "weir-through:/tmp/two"))
        output_of(begin(pool, user, "scp", "weir-through:/tmp/two", "three"))
        assert Path(user.pw_dir, "three").read_bytes() == content
        said = output_of(begin_ssh(pool, user, "through", "-tt", "tty; stty size")).split()
        assert said[0].startswith("/dev/pts/"), said
        with echo_server() as there:
            here, back = free_port(), free_port()
            words = ("-N", "-L", f"{here}:127.0.0.1:{there}", "-R", f"127.0.0.1:{back}:127.0.0.1:{there}")
            connection = begin(pool, user, "ssh", *words, "weir-through")
            try:
                for port in (here, back):
                    until(lambda port=port: echoes(port))  # type: ignore[misc]
            finally:
                connection.kill()
                connection.communicate(timeout=LIMIT_S)


def test_the_steps_of_an_editor_leave_its_server_for_the_next_connection(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[0]
    script = (
        b"uname -s; mkdir -p ~/.editor && cd ~/.editor\n"
        b"nohup setsid sleep 1003 >/dev/null 2>&1 </dev/null &\n"
        b"echo listeningOn==$!==\n"
    )
    with session(pool, user, "edited", image):
        said = output_of(begin_ssh(pool, user, "edited", "-T", "bash"), script)
        assert said.startswith("Linux\nlisteningOn=="), said
        pid = said.split("==")[1]
        assert output_of(begin_ssh(pool, user, "edited", f"cat /proc/{pid}/comm")) == "sleep\n"


def test_a_connection_goes_on_without_the_server_and_ends_with_the_container(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[2]
    with session(pool, user, "lasting", image):
        connection = begin_ssh(pool, user, "lasting", "cat")
        assert connection.stdin is not None
        assert connection.stdout is not None
        try:
            for word in (b"before\n", b"after\n"):
                connection.stdin.write(word)
                assert connection.stdout.read(len(word)) == word
                if word == b"before\n":
                    pool.kill(node=True, server=True)
            pool.ask(user, "POST", "/api/v1/workloads/lasting/stop")
            assert connection.wait(LIMIT_S) != 0
        finally:
            connection.kill()
            connection.communicate(timeout=LIMIT_S)


def test_a_shell_in_a_new_session_waits_for_the_image(
    pool: SharedPool, unix_users: People, places: Path
) -> None:
    user, image = unix_users[3], docker_archive(places / "new.tar", "localhost/new:1")
    done = pool.weir(user, "shell", "fresh", "-p", "default", "--gpus", "0", "--image", image)
    assert done.returncode == 0, done.stderr
    pool.ask(user, "POST", "/api/v1/workloads/fresh/stop")
    pool.wait("fresh", "stopped")
    image = f"docker-archive:{places}/none.tar"
    done = pool.weir(
        user, "shell", "imageless", "-p", "default", "--gpus", "0", "--retries", "0", "--image", image
    )
    assert done.returncode != 0


def test_another_user_is_not_let_in(pool: SharedPool, unix_users: People, image: str) -> None:
    user, other = unix_users[:2]
    with session(pool, user, "shut", image):
        assert output_of(begin_ssh(pool, user, "shut", "echo in")) == "in\n"
        make_config(pool, other)
        assert "only that user" in output_of(begin_ssh(pool, other, "shut", "true"), code=255)


def test_an_image_without_sshd_is_named_with_the_command_that_installs_it(
    pool: SharedPool, unix_users: People, places: Path
) -> None:
    user = unix_users[0]
    with session(pool, user, "bare", docker_archive(places / "bare.tar", "localhost/bare:1")):
        said = output_of(begin_ssh(pool, user, "bare", "true"), code=255)
        assert "the image of bare has no sshd: add `RUN apt-get update && apt-get install" in said
        assert "`weir shell bare` needs none" in said


def test_accounts_that_lead_out_of_the_container_are_refused(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[1]
    with session(pool, user, "leading", image):
        assert output_of(begin_ssh(pool, user, "leading", "echo in")) == "in\n"
        script = "rm -f /etc/passwd; ln -s /proc/self/environ /etc/passwd"
        done = pool.weir(user, "exec", "leading", "--", "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        said = output_of(begin_ssh(pool, user, "leading", "cat /etc/passwd"), code=255)
        assert "accounts of its container can't be read: /etc/passwd is a link" in said
        assert user.pw_dir not in said


@contextmanager
def echo_server() -> Iterator[int]:
    """Serve a port that sends back what it gets."""

    def serve() -> None:
        while True:
            try:
                stream, _ = listening.accept()
            except OSError:
                return
            with stream:
                stream.sendall(stream.recv(64))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]


def echoes(port: int) -> bool:
    """Return True once the echo comes back through a port."""
    try:
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as stream:
            stream.settimeout(LIMIT_S)
            stream.sendall(b"through")
            return stream.recv(64) == b"through"
    except OSError:
        return False
