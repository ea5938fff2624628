"""The script that prepares sshd in a container, run by this machine's own programs."""

import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from weir.cli.sessions.kubernetes import container_sshd

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
KEY = "ssh-ed25519 " + "A" * 68
pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd: apt-get install openssh-server")


def prepared(directory: Path, key: str = KEY, user: str = "", **variables: str) -> tuple[int, str]:
    command = container_sshd.check_command(key) if not user else container_sshd.serve_command(key, user)
    own = {"PATH": os.environ["PATH"], "TMPDIR": str(directory), **variables}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=180, check=False)
    return done.returncode, done.stdout.strip()


def test_sshd_reads_the_configuration_whatever_the_variables_are(tmp_path: Path) -> None:
    hostile = {"A": 'x" PermitRootLogin=yes "', "B": "back\\slash 'quote' $(id)", "C": "two\nForceCommand id"}
    code, user = prepared(tmp_path, **hostile)
    assert (code, user) == (0, pwd.getpwuid(os.getuid()).pw_name)
    (own,) = tmp_path.iterdir()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "host_key").stat().st_mode) == 0o600
    text = (own / "config").read_text()
    assert ' "A=x\\" PermitRootLogin=yes \\""' in text
    assert " \"B=back\\\\slash 'quote' $(id)\"" in text
    assert "ForceCommand" not in text
    assert SSHD is not None
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    subprocess.run([SSHD, "-t", "-f", own / "config"], check=True)


def test_a_second_machine_is_let_in_beside_the_first_with_the_same_host_key(tmp_path: Path) -> None:
    other = KEY.replace("A", "B")
    assert prepared(tmp_path)[0] == 0
    (own,) = tmp_path.iterdir()
    host_key = (own / "host_key").read_bytes()
    for _ in range(2):
        assert prepared(tmp_path, other)[0] == 0
    assert (own / "keys").read_text() == f"{KEY}\n{other}\n"
    assert (own / "host_key").read_bytes() == host_key
    assert sorted(each.name for each in own.iterdir()) == ["config", "host_key", "keys"]


def test_a_directory_that_someone_else_put_there_is_not_used(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f".weir-ssh-{os.getuid()}").symlink_to(elsewhere)
    prepared(tmp_path, HOME=str(tmp_path / "none"))
    assert not list(elsewhere.iterdir())
    shutil.rmtree(f"/dev/shm/.weir-ssh-{os.getuid()}", ignore_errors=True)


def test_another_account_is_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    code, _ = prepared(tmp_path, user="no-such-account")
    assert code == container_sshd.OTHER_USER
    assert "`weir ssh dev` finds the user" in str(container_sshd.refusal_of(code, "no-such-account", "dev"))


@pytest.mark.parametrize("code", range(81, 87))
def test_each_refusal_is_a_sentence(code: int) -> None:
    assert "dev" in str(container_sshd.refusal_of(code, "mia", "dev"))


def test_codes_of_sshd_are_no_refusals() -> None:
    assert container_sshd.refusal_of(255, "mia", "dev") is None
    assert container_sshd.refusal_of(0, "mia", "dev") is None
