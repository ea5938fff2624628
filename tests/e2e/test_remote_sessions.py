"""Sessions of a pool on another machine, which only ssh reaches."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.ssh_session import LIMIT_S, Person, connected, ended, words_of
from tests.session_programs import NEEDS_SSH
from tests.unit.local.server.server_process import serving
from tools.controlplane.ports import free_port

pytestmark = NEEDS_SSH


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person of another machine, whose ssh reaches this one as gpu1."""
    directory, home = tmp_path_factory.mktemp("sshd"), tmp_path_factory.mktemp("person")
    for name in ("host", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
        subprocess.run(words, check=True)
    program = directory / "bin" / "weir"
    program.parent.mkdir()
    source = Path(os.environ.get("PYTHONPATH", "src")).absolute()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {sys.executable} -m weir "$@"\n')
    program.chmod(0o755)
    port = free_port()
    (directory / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nStrictModes no\nUsePAM no\nPidFile none\n"
        f"AuthorizedKeysFile {directory}/key.pub\nSetEnv PATH={program.parent}:/usr/bin:/bin\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    assert sshd is not None
    listener = subprocess.Popen([sshd, "-D", "-f", str(directory / "config")], stderr=subprocess.DEVNULL)
    with ended(listener), serving(tmp_path_factory.mktemp("pool") / "home", settings={}) as server:
        connected(("127.0.0.1", port)).close()
        person = Person(server, home)
        ssh = home / "bin" / "ssh"
        ssh.parent.mkdir()
        (home / "config").write_text(
            f"Host gpu1\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {directory}/key\n  IdentitiesOnly yes\n"
            "  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"
        )
        real = shutil.which("ssh")
        ssh.write_text(
            f'#!/bin/sh\ncase " $* " in *" -F "*) exec {real} "$@";; esac\nexec {real} -F {home}/config "$@"\n'
        )
        ssh.chmod(0o755)
        (home / "run").mkdir(mode=0o700)
        person.environment |= {
            "WEIR_URL": f"ssh://gpu1{server.home}/weir.sock",
            "PATH": f"{ssh.parent}:{person.environment['PATH']}",
            "XDG_RUNTIME_DIR": str(home / "run"),
        }
        del person.environment["WEIR_HOME"]
        yield person


def test_one_command_makes_a_session_and_logs_in_to_it(person: Person) -> None:
    done = person.weir("ssh", "far", "--gpus", "1", "--", "echo $WEIR_WORKLOAD $CUDA_VISIBLE_DEVICES")
    device = person.server.get("/api/v1/workloads/far")["pod_rows"][0]["devices"][0]
    assert words_of(done) == ["far", str(device)]
    assert words_of(person.ssh("weir-far", "echo again")) == ["again"]
    path = person.home / "one"
    path.write_text("copied")
    done = person.run("scp", "-F", str(person.config), str(path), f"weir-far:{path}2")
    assert done.returncode == 0, done.stderr
    assert Path(f"{path}2").read_text() == "copied"


def test_the_key_of_this_machine_stays_here(person: Person) -> None:
    own = person.home / ".local/state/weir/remote-sessions/weir-far"
    assert (own / "client_key").stat().st_mode & 0o777 == 0o600
    uid = person.server.get("/api/v1/workloads/far")["uid"]
    there = person.server.home / "jobs" / str(uid) / "1-0-0" / "session" / "authorized_keys"
    assert there.read_text().split()[1] == (own / "client_key.pub").read_text().split()[1]


def test_a_key_that_is_more_than_a_key_is_refused(person: Person) -> None:
    environment = {**person.environment, "WEIR_HOME": str(person.server.home)}
    del environment["WEIR_URL"]
    words = [
        sys.executable,
        "-P",
        "-m",
        "weir",
        "session",
        "pipe",
        "far",
        "--key",
        'command="id" ssh-ed25519 AAAA',
    ]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, "isn't the public key" in done.stderr) == (2, True), done.stderr
