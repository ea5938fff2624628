"""Several people on one machine: every job runs as its submitter, whatever is killed meanwhile."""

import os
import pwd
import random
import resource
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from tests.properties.budget import EFFORT

from .shared_pool import LIMIT_S, ROOT, SharedPool, until

People = list[pwd.struct_passwd]
KILLS = 3 if EFFORT == 1 else 200


def test_a_job_runs_as_its_submitter(pool: SharedPool, unix_users: People) -> None:
    lines = (
        "id -u; id -g; id -G; id -un; pwd; echo $HOME $USER $LOGNAME; umask; ls /proc/self/fd | wc -l",
        "grep -E 'NoNewPrivs|CapEff|CapPrm|CapAmb' /proc/self/status",
        "ps -o sid= -p $$ > /dev/null; touch $WEIR_CHECKPOINT_DIR/state $HOME/file",
    )
    for at, user in enumerate(unix_users[:2]):
        name = f"who{at}"
        pool.submit(user, name, "sh", "-c", "; ".join(lines))
        pool.wait(name, "succeeded")
        told = pool.log(name).split("\n")
        groups = " ".join(str(each) for each in os.getgrouplist(user.pw_name, user.pw_gid))
        assert told[:4] == [str(user.pw_uid), str(user.pw_gid), groups, user.pw_name]
        assert told[4:8] == [user.pw_dir, f"{user.pw_dir} {user.pw_name} {user.pw_name}", "0022", "4"]
        assert {line.split()[1] for line in told[8:12]} == {"0" * 16, "1"}
        assert Path(user.pw_dir, "file").stat().st_uid == user.pw_uid
        uid = pool.row(name)["uid"]
        for path, mode in (
            (pool.home / "jobs" / str(uid) / "1-0-0", 0o2750),
            (pool.home / "jobs" / str(uid) / "1-0-0" / "log", 0o640),
            (pool.home / "checkpoints" / str(uid), 0o2750),
            (pool.home / "checkpoints" / str(uid) / "state", 0o644),
        ):
            status = path.stat()
            assert (status.st_uid, status.st_gid) == (user.pw_uid, unix_users[4].pw_gid), path
            assert stat.S_IMODE(status.st_mode) == mode, path
        status, text = pool.ask(user, "GET", f"/api/v1/workloads/{name}/logs")
        assert (status, user.pw_name in str(text)) == (200, True)


def test_neither_server_nor_supervisor_has_rights_of_root(pool: SharedPool, unix_users: People) -> None:
    pool.submit(unix_users[0], "held", "sleep", "3600")
    pool.wait("held", "running")
    supervisor = pool.running("held")["supervisor"]
    for pid, user in ((pool.server_pid, unix_users[4]), (supervisor, unix_users[0])):
        fields = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert fields["Uid"].split() == [str(user.pw_uid)] * 4
        assert fields["CapEff"] == fields["CapPrm"] == fields["CapAmb"] == "0" * 16
        assert "0" not in fields["Groups"].split()
    pool.ask(unix_users[0], "POST", "/api/v1/workloads/held/stop")
    pool.wait("held", "stopped")


def test_a_job_has_the_resource_limits_of_a_login(pool: SharedPool, unix_users: People) -> None:
    limited, other = unix_users[:2]
    written = Path(f"/etc/security/limits.d/weir-t-{os.getpid()}.conf")
    if not written.parent.is_dir():
        pytest.skip("this machine has no limits of logins")
    name = limited.pw_name
    written.write_text(
        f"{name} - nofile 777\n{name} soft core 0\n{name} hard nofile {1 << 40}\n{name} soft nproc 5000\n"
    )
    try:
        for user in (limited, other):
            command = "ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Su"
            pool.submit(user, f"limits-{user.pw_name}", "bash", "-c", command, gpus=0)
        for user in (limited, other):
            pool.wait(f"limits-{user.pw_name}", "succeeded")
    finally:
        written.unlink()
    soft, hard = resource.prlimit(pool.process.pid, resource.RLIMIT_NOFILE)
    assert pool.log(f"limits-{name}").split() == ["777", str(hard), "0", "5000"], "none above the node's own"
    assert pool.log(f"limits-{other.pw_name}").split()[:2] == [str(soft), str(hard)]


def test_a_job_opens_its_own_gpu_and_no_other(
    pool: SharedPool, unix_users: People, gpu_files: list[Path]
) -> None:
    tries = "; ".join(f"(head -c1 {path} | wc -c) 2>&1" for path in gpu_files)
    command = ("sh", "-c", f"echo $WEIR_DEVICES; {tries}; echo tried; while [ ! -e go ]; do sleep 0.05; done")
    (Path(unix_users[0].pw_dir) / "go").unlink(missing_ok=True)
    for name in ("left", "right"):
        pool.submit(unix_users[0], name, *command)
    for name in ("left", "right"):
        pool.wait(name, "running")
        pool.says(name, "tried")
        device, *opened = [line for line in pool.log(name).split("\n") if line in ("0", "1")]
        detail = pool.row(name)
        assert (detail["gpu_access"], detail["gpu_memory"]) == ("enforced", "enforced")
        assert opened == ["1" if at == int(device) else "0" for at in range(2)]
    (Path(unix_users[0].pw_dir) / "go").touch()
    for name in ("left", "right"):
        pool.wait(name, "succeeded")


def test_a_job_gets_its_secrets_and_no_file_of_them(pool: SharedPool, unix_users: People) -> None:
    assert pool.ask(ROOT, "PUT", "/api/v1/projects/default/secrets/pass", {"value": "word"})[0] < 300
    command = (
        "sh",
        "-c",
        "echo $KEY | tr a-z A-Z; grep -rl word $WEIR_POD_DIRECTORY; ls -l /proc/self/fd | grep -c memfd; true",
    )
    pool.submit(unix_users[0], "secretive", *command, secrets={"KEY": "pass"})
    pool.wait("secretive", "succeeded", "failed")
    assert pool.log("secretive").split() == ["WORD", "0"]


def test_a_command_next_to_a_job_has_its_devices_and_ends_with_it(
    pool: SharedPool, unix_users: People, gpu_files: list[Path]
) -> None:
    user = unix_users[0]
    pool.submit(user, "session", "sh", "-c", "sleep 3600")
    pool.wait("session", "running")
    device = pool.row("session")["pod_rows"][0]["devices"][0]
    own, other = gpu_files if device == 0 else gpu_files[::-1]
    script = f"echo $WEIR_WORKLOAD; id -u; pwd; head -c1 {own} | wc -c; head -c1 {other} 2>/dev/null | wc -c; cat /proc/self/cgroup"
    done = pool.weir(user, "exec", "session", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert lines[:5] == ["session", str(user.pw_uid), user.pw_dir, "1", "0"]
    assert any(line.endswith(".1-0-0") for line in lines[5:])
    refused = pool.weir(unix_users[1], "exec", "session", "--", "id")
    assert refused.returncode != 0
    assert "only that user" in refused.stderr or "can't" in refused.stderr, refused.stderr
    entered = pool.begin_weir(user, "exec", "session", "--", "sleep", "7531")
    until(lambda: Path(f"/proc/{entered.pid}/comm").read_text() == "sleep\n")
    pool.ask(user, "POST", "/api/v1/workloads/session/stop")
    pool.wait("session", "stopped")
    entered.communicate(timeout=LIMIT_S)
    assert entered.returncode == -signal.SIGKILL


def test_a_gang_that_was_stopped_comes_back_as_its_user(pool: SharedPool, unix_users: People) -> None:
    user = unix_users[1]
    script = "id -un; cat $WEIR_CHECKPOINT_DIR/* 2>/dev/null; trap 'id -un > $WEIR_CHECKPOINT_DIR/$RANK; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    pool.submit(user, "gang", "sh", "-c", script, pods=2)
    pool.says("gang", "up")
    until(lambda: all("up" in path.read_text() for path in pool.logs("gang")) and len(pool.logs("gang")) == 2)
    assert pool.ask(user, "POST", "/api/v1/workloads/gang/suspend")[0] in (200, 202)
    pool.wait("gang", "pending")
    assert pool.ask(user, "POST", "/api/v1/workloads/gang/resume")[0] in (200, 202)
    until(lambda: len(pool.logs("gang")) == 4 and all("up" in path.read_text() for path in pool.logs("gang")))
    for path in pool.logs("gang")[2:]:
        assert path.read_text().split("\n")[:3] == [user.pw_name] * 3  # itself, and what both pods saved
    pool.ask(user, "POST", "/api/v1/workloads/gang/stop")
    pool.wait("gang", "stopped")


def test_a_supervisor_that_its_job_kills_takes_the_job_with_it(pool: SharedPool, unix_users: People) -> None:
    user = unix_users[0]
    script = "setsid sleep 4321 & echo child $!; kill -9 $PPID; sleep 4321"
    pool.submit(user, "patricide", "sh", "-c", script)
    until(lambda: len(pool.logs("patricide")) >= 2)  # lost, and started again
    first = pool.logs("patricide")[0].read_text().split()[1]
    until(lambda: not Path(f"/proc/{first}").exists() or pool_state(int(first)) == "Z")
    pool.ask(user, "POST", "/api/v1/workloads/patricide/stop")
    pool.wait("patricide", "stopped", "failed")


def pool_state(pid: int) -> str:
    """Return the state of a process; Z if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_whatever_is_killed_jobs_go_on_once_and_as_their_user(pool: SharedPool, unix_users: People) -> None:
    chance = random.Random(16)
    script = "echo begun $$ >> $HOME/runs-$WEIR_WORKLOAD; id -un; while [ ! -e $HOME/end ]; do sleep 0.05; done; echo done"
    names, started = {}, {}
    people = [user for user in unix_users if user != pool.server_user]
    for user in people:
        Path(user.pw_dir, "end").unlink(missing_ok=True)
        name = f"long{user.pw_uid}"
        names[name] = user
        pool.submit(user, name, "sh", "-c", script, gpus=0)
    for name, user in names.items():
        pool.says(name, user.pw_name)
    for at in range(KILLS):
        time.sleep(chance.random() * 0.2)
        pool.kill(node=at % 3 != 1, server=at % 3 != 0)
        for name in names:
            assert pool.row(name)["status"] == "running", name
        user = chance.choice(people)
        short = f"short{at}"
        started[short] = user
        pool.submit(user, short, "sh", "-c", f"echo {short} >> $HOME/shorts", gpus=0)
    for user in people:
        Path(user.pw_dir, "end").touch()
    for name, user in started.items():
        pool.wait(name, "succeeded")
        assert Path(user.pw_dir, "shorts").read_text().split().count(name) == 1
    for name, user in names.items():
        pool.wait(name, "succeeded")
        assert len(Path(user.pw_dir, f"runs-{name}").read_text().splitlines()) == 1
        assert pool.log(name).split() == [user.pw_name, "done"]
        assert {path.stat().st_uid for path in pool.logs(name)} == {user.pw_uid}
    for name, user in (names | started).items():
        assert owners_of(pool, name) == {user.pw_uid}, name
    for user in people:
        made = [*Path(user.pw_dir).glob("runs-*"), Path(user.pw_dir, "shorts")]
        assert {path.stat().st_uid for path in made if path.exists()} == {user.pw_uid}
        until(lambda user=user: not processes_of(user), lambda user=user: processes_of(user))  # type: ignore[misc]


def processes_of(user: pwd.struct_passwd) -> str:
    """Return the processes of a user."""
    shows = ["ps", "-o", "pid,ppid,stat,args", "--no-headers", "-u", str(user.pw_uid)]
    return subprocess.run(shows, check=False, capture_output=True, text=True).stdout


def owners_of(pool: SharedPool, name: str) -> set[int]:
    """Return the owners of the directories of a workload, and of everything in them."""
    uid = str(pool.row(name)["uid"])
    roots = [*(pool.home / "jobs" / uid).iterdir(), pool.home / "checkpoints" / uid]
    return {path.lstat().st_uid for root in roots for path in (root, *root.rglob("*"))}


def test_a_pool_that_stops_lets_jobs_run(pool: SharedPool, unix_users: People) -> None:
    pool.submit(unix_users[2], "stays", "sleep", "3600")
    leader = pool.running("stays")["leader"]
    pool.process.send_signal(signal.SIGTERM)
    assert pool.process.wait(120) == 0
    assert pool_state(leader) != "Z"
    pool.begin()
    pool.wait("stays", "running")
    pool.ask(ROOT, "POST", "/api/v1/workloads/stays/stop")
    pool.wait("stays", "stopped")
    assert pool_state(leader) == "Z"
