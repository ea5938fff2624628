"""Entry into a container: files and terminal of the caller that a program gets there."""

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.local.containers import enter, sshd, user_namespace
from weir.local.files import job_files
from weir.local.files.job_files import UnreadableFile

LIMIT_S = 180
ENTER = """
import os, sys
from weir.local.containers import enter
def become(environment):
    os.execvpe("sh", ["sh", "-c", sys.argv[2]], {"PATH": "/bin:/usr/bin"})
say = None if sys.argv[3] == "exec" else lambda line: print("said", line[:9], flush=True)
sys.exit(enter.inside(int(sys.argv[1]), become, "sh", say))
"""


@pytest.fixture(scope="module")
def container() -> Iterator[int]:
    """Return the first process of namespaces such as those of a container."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode != 0:
        pytest.skip("the kernel doesn't let this user make a user namespace")
    script = "echo begun; exec sleep 600"
    with subprocess.Popen([*words, "sh", "-c", script], stdout=subprocess.PIPE) as outer:
        assert outer.stdout is not None
        outer.stdout.readline()
        inner = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        try:
            yield inner
        finally:
            os.kill(inner, 9)


def entered(pid: int, script: str, kind: str, *, descriptors: tuple[int, ...] = ()) -> str:
    """Return what a script in the namespaces prints, in a process with a terminal of its caller."""
    main, terminal = pty.openpty()
    words = [sys.executable, "-c", "import fcntl, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0)\n" + ENTER]
    try:
        done = subprocess.run(
            [*words, str(pid), script, kind],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=terminal,
            pass_fds=descriptors,
            start_new_session=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
    finally:
        os.close(terminal)
        os.close(main)
    return done.stdout


@pytest.mark.parametrize("kind", ["exec", "sshd"])
def test_open_files_of_the_caller_stay_outside(container: int, kind: str) -> None:
    own = os.open("/", os.O_RDONLY)
    try:
        said = entered(container, "ls /proc/self/fd", kind, descriptors=(own,)).split()
    finally:
        os.close(own)
    assert said == ["0", "1", "2", "3"], "the last is that of ls"


def test_the_terminal_of_the_caller_stays_outside(container: int) -> None:
    script = "readlink /proc/self/fd/2; (: </dev/tty) 2>/dev/null && echo has one; echo error >&2"
    said = entered(container, script, "sshd").splitlines()
    assert said[0].startswith("pipe:"), said
    assert said[1:] == ["said error"]
    assert "has one" in entered(container, script, "exec"), "the test's own terminal is one"


def test_the_error_output_is_passed_on_as_far_as_it_is_short(container: int) -> None:
    script = "yes a-line-of-an-error | head -n 100000 >&2; sleep 599 >/dev/null & printf end >&2"
    lines = entered(container, script, "sshd").splitlines()
    assert 100 < len(lines) < 5000
    assert set(lines[:-1]) == {"said a-line-of"}


def test_accounts_are_no_link_or_pipe_and_no_file_of_the_kernel(tmp_path: Path) -> None:
    def why(path: Path) -> str:
        read = job_files.read_at(None, str(path), 100)
        assert isinstance(read, UnreadableFile)
        return read.why

    (tmp_path / "link").symlink_to("/proc/self/environ")
    (tmp_path / "etc").symlink_to("/proc/self")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "big").write_bytes(bytes(101))
    (tmp_path / "right").write_bytes(bytes(100))
    assert why(tmp_path / "link") == "is a link, or lies below one"
    assert why(tmp_path / "etc" / "environ") == "lies in /proc"
    assert why(tmp_path / "fifo") == "is a FIFO"
    assert why(tmp_path / "big") == "has more than 100 bytes"
    assert why(Path("/dev/zero")) == "is a device"
    assert job_files.read_at(None, str(tmp_path / "none"), 100) is None
    assert job_files.read_at(None, str(tmp_path / "right"), 100) == bytes(100)


def test_accounts_that_are_a_link_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "read_at", lambda *_: UnreadableFile("/etc/passwd", "is a link"))
    monkeypatch.setattr(user_namespace, "replace_files", lambda _: pytest.fail("nothing is replaced"))
    with pytest.raises(enter.NotEntered, match="can't be read: /etc/passwd is a link"):
        sshd._replace_accounts("mia")


def test_files_are_replaced_for_one_process_alone(container: int) -> None:
    script = (
        "from weir.local.containers import enter, user_namespace\n"
        "import os, sys\n"
        "def become(_):\n"
        "    user_namespace.enter_own_mounts()\n"
        "    user_namespace.replace_files({'/etc/passwd': b'one\\n', '/etc/group': b'two\\n'})\n"
        "    os.execv('/bin/sh', ['sh', '-c', 'cat /etc/passwd /etc/group; ls -d /proc/1'])\n"
        "sys.exit(enter.inside(int(sys.argv[1]), become, 'sh', print))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(container)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout.splitlines()[:3] == ["one", "two", "/proc/1"], done
    assert "one\n" not in Path("/etc/passwd").read_text(), "others see their own"
