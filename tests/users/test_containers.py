"""Containers of a pool for several users, with Podman and an image made on the spot."""

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import People
from .shared_pool import SharedPool, until
from .tiny_image import docker_archive, require_podman


@pytest.fixture(scope="module", autouse=True)
def _podman() -> None:
    require_podman()


@pytest.fixture(scope="module")
def image(places: Path) -> str:
    return docker_archive(places / "tiny.tar")


def test_container_runs_the_command_and_its_exit_code_counts(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[0]
    words = "id; echo of the image: $OF_IMAGE; cat /etc/owned-by-another; exit 7"
    pool.submit(user, "in-container", "sh", "-c", words, image=image, gpus=0, retries=0)
    row = pool.wait("in-container", "failed", "succeeded")
    log = pool.log("in-container")
    assert row["exit_code"] == 7, log
    assert "of the image: yes" in log
    assert "kept" in log
    assert row["image"] == image
    assert "fetches its image" in str(row["events"])


def test_command_line_submits_a_container_without_the_variables_of_its_shell(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    words = ("submit", "-p", "default", "--name", "by-cli", "--gpus", "0", "--retries", "0")
    done = pool.weir(
        unix_users[0], *words, "--wait", "--image", image, "--", "sh", "-c", "echo PATH is $PATH; exit 5"
    )
    assert done.returncode == 5, done.stderr
    assert "PATH is /bin\n" in pool.log("by-cli")
    assert image in pool.weir(unix_users[0], "describe", "by-cli").stdout


def test_image_that_is_missing_and_a_program_that_is_missing_say_so(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[0]
    pool.submit(user, "no-image", "true", image="localhost/none:1", pull="never", gpus=0, retries=0)
    row = pool.wait("no-image", "failed")
    assert "the image localhost/none:1 isn't on this machine" in str(row), row
    pool.submit(user, "no-program", "no-such-program", image=image, gpus=0, retries=0)
    pool.wait("no-program", "failed")
    assert "No such file" in pool.log("no-program")
    submission = {"project": "default", "command": ["true"], "image": "--privileged"}
    status, answer = pool.ask(user, "POST", "/api/v1/workloads", submission)
    assert status == 422, answer
    assert "is no image" in answer["detail"]


def test_image_that_podman_refuses_gives_its_reason(
    pool: SharedPool, unix_users: People, places: Path
) -> None:
    broken = places / "broken.tar"
    broken.write_bytes(b"no archive" * 100)
    broken.chmod(0o644)
    image = f"docker-archive:{broken}"
    pool.submit(unix_users[0], "refused", "true", image=image, gpus=0, retries=0)
    sentence = pool.wait("refused", "failed")["reason"]["sentence"]
    (error,) = [line for line in pool.log("refused").splitlines() if line.startswith("Error: ")]
    assert f"{broken} can't be fetched: {error.removeprefix('Error: ')}" in sentence


def test_container_needs_no_directory_of_its_user_but_the_store(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[5]
    closed = [Path(user.pw_dir, name) for name in (".config", ".cache")]
    for path in closed:
        path.mkdir()
    try:
        pool.submit(user, "closed-home", "echo", "it runs", image=image, gpus=0, retries=0)
        row = pool.wait("closed-home", "failed", "succeeded")
        assert row["status"] == "succeeded", (row["reason"], pool.log("closed-home"))
        assert not [below for path in closed for below in path.iterdir()]
    finally:
        for path in closed:
            path.rmdir()


def test_exec_enters_the_container(pool: SharedPool, unix_users: People, image: str) -> None:
    user = unix_users[0]
    pool.submit(user, "entered", "sh", "-c", "echo ready; exec sleep 1000", image=image, gpus=0)
    until(lambda: "ready" in pool.log("entered"))
    done = pool.weir(
        user, "exec", "entered", "--", "sh", "-c", "echo $OF_IMAGE $WEIR_WORKLOAD; id -u; exit 9"
    )
    assert (done.returncode, done.stdout.split()) == (9, ["yes", "entered", "0"]), done.stderr
    assert pool.weir(unix_users[1], "exec", "entered", "--", "id").returncode != 0
    assert pool.weir(user, "exec", "entered", "--", "no-such-program").returncode == 127
    pool.ask(user, "POST", "/api/v1/workloads/entered/stop")
    pool.wait("entered", "stopped")


SAVE = """
trap 'echo state > $WEIR_CHECKPOINT_DIR/saved-$RANK; [ -e $WEIR_POD_DIRECTORY/stop.json ] && echo noticed; exit 0' TERM
if [ -e $WEIR_CHECKPOINT_DIR/saved-$RANK ]; then echo resumed from $(cat $WEIR_CHECKPOINT_DIR/saved-$RANK); exit 0; fi
echo rank $RANK of $WORLD_SIZE meets at $MASTER_ADDR:$MASTER_PORT
while :; do sleep 0.1; done
"""


def test_gang_is_stopped_with_notice_and_resumes_from_its_checkpoint(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[1]
    pool.submit(user, "gang", "sh", "-c", SAVE, image=image, pods=2, gpus=0)
    until(lambda: sum("meets at" in path.read_text() for path in pool.logs("gang")) == 2)
    assert pool.ask(user, "POST", "/api/v1/workloads/gang/suspend")[0] == 200
    pool.wait("gang", "pending")
    assert pool.ask(user, "POST", "/api/v1/workloads/gang/resume")[0] == 200
    pool.wait("gang", "succeeded")
    text = "".join(path.read_text() for path in pool.logs("gang"))
    assert text.count("noticed") == 2
    assert text.count("resumed from state") == 2
    saved = list((pool.home / "checkpoints" / str(pool.row("gang")["uid"])).iterdir())
    assert {path.stat().st_uid for path in saved} == {user.pw_uid}


def test_container_that_ignores_its_notice_is_killed_and_leaves_nothing(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[2]
    command = "trap '' TERM; echo ready; (sleep 1001 &) ; while :; do sleep 1002; done"
    pool.submit(user, "deaf", "sh", "-c", command, image=image, gpus=0, grace=0.3)
    until(lambda: "ready" in pool.log("deaf"))
    assert _processes_of(user.pw_uid)
    pool.ask(user, "POST", "/api/v1/workloads/deaf/stop")
    pool.wait("deaf", "stopped")
    until(lambda: not _processes_of(user.pw_uid))
    own = pool.logs("deaf")[0].parent
    assert sorted(path.name for path in own.iterdir()) == ["log", "notes.jsonl", "stop.json"]


def test_container_stays_in_the_control_groups_of_its_pod(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    command = ["sh", "-c", "cat /proc/self/cgroup; exec dd if=/dev/zero of=/dev/null bs=500M count=1"]
    pods = [{"gpus": 0, "cpu": "100m", "memory": "100Mi"}]
    body = {"project": "default", "name": "eater", "command": command, "image": image, "pods": pods}
    assert pool.ask(unix_users[0], "POST", "/api/v1/workloads", body)[0] == 201
    row = pool.wait("eater", "failed", "succeeded")
    assert row["status"] == "failed", pool.log("eater")
    assert "100Mi" in str(row), row


def test_container_reaches_neither_other_files_nor_other_processes(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user, other = unix_users[0], unix_users[1]
    pool.submit(other, "of-another", "true", gpus=0)
    uid = pool.wait("of-another", "succeeded")["uid"]
    paths = [other.pw_dir, "/home", "/etc/shadow", f"{pool.home}/pods", f"{pool.home}/secrets"]
    paths += [
        str(pool.home / name) for name in (f"jobs/{uid}", "server.json", "weir.db", "notes.sock", "weir.sock")
    ]
    paths += [str(pool.socket), f"/proc/{pool.server_pid}/environ", "/dev/sda", "/dev/vda", "/dev/mem"]
    checks = "; ".join(f"[ -e {path} ] && echo reaches {path}" for path in paths)
    words = "touch /proc/sys/kernel/hostname && echo writes"
    pool.submit(user, "curious", "sh", "-c", f"cd /; {words}; {checks}; echo over", image=image, gpus=0)
    pool.wait("curious", "failed", "succeeded")
    log = pool.log("curious")
    assert "over" in log
    reached = [line for line in log.splitlines() if line.startswith("reaches")]
    assert reached == ["reaches /home"] or reached == [], log  # the directory above its own home
    assert "writes" not in log.replace("reaches", "")


def test_gpu_comes_by_its_specification_and_no_other(
    pool: SharedPool, unix_users: People, image: str, gpu_files: list[Path]
) -> None:
    with _specifications(gpu_files):
        checks = "".join(
            f"if head -c 1 {path} > /dev/null; then echo opens {path}; fi; " for path in gpu_files
        )
        pool.submit(unix_users[0], "on-gpu", "sh", "-c", f"cd /; {checks} echo $WEIR_DEVICES", image=image)
        pool.wait("on-gpu", "failed", "succeeded")
    log = pool.log("on-gpu")
    device = int(log.split()[-1])
    expected = [f"opens {gpu_files[device]}"] if device < len(gpu_files) else []
    assert [line for line in log.splitlines() if line.startswith("opens")] == expected, log


@contextmanager
def _specifications(files: list[Path]) -> Iterator[None]:
    """Name virtual GPUs of a pool for containers on the whole machine: one run of tests at a time."""
    with Path("/run/lock/weir-tests-cdi").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory = Path("/etc/cdi")
        if directory.exists() and any(directory.iterdir()):
            pytest.skip("this machine has specifications of its own in /etc/cdi")
        made = not directory.exists()
        directory.mkdir(exist_ok=True)
        specification = directory / "weir-test.json"
        devices = [
            {"name": f"virtual-{at}", "containerEdits": {"deviceNodes": [{"path": str(path)}]}}
            for at, path in enumerate(files)
        ]
        kind = {"cdiVersion": "0.3.0", "kind": "nvidia.com/gpu", "devices": devices}
        try:
            specification.write_text(json.dumps(kind))
            yield
        finally:
            specification.unlink(missing_ok=True)
            if made:
                directory.rmdir()


def test_container_runs_on_after_a_kill_of_server_and_node(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[3]
    words = "echo begun; while [ ! -e $WEIR_CHECKPOINT_DIR/go ]; do sleep 0.1; done; stat -c 'over %i' $WEIR_NOTES"
    pool.submit(user, "survivor", "sh", "-c", words, image=image, gpus=0)
    pool.says("survivor", "begun")
    pool.kill(node=True, server=True)
    assert pool.row("survivor")["status"] == "running"
    go = pool.home / "checkpoints" / str(pool.row("survivor")["uid"]) / "go"
    go.touch()
    pool.wait("survivor", "succeeded")
    assert len(pool.logs("survivor")) == 1
    assert f"over {(pool.home / 'notes.sock').stat().st_ino}" in pool.log("survivor")  # the new server's


def test_container_ends_with_its_supervisor_and_starts_once_more(
    pool: SharedPool, unix_users: People, image: str
) -> None:
    user = unix_users[3]
    words = "[ $WEIR_RESTARTS = 0 ] || exit 0; echo begun; exec sleep 1000"
    pool.submit(user, "orphan", "sh", "-c", words, image=image, gpus=0)
    pool.says("orphan", "begun")
    os.kill(pool.running("orphan")["supervisor"], signal.SIGKILL)
    pool.wait("orphan", "succeeded")
    assert len(pool.logs("orphan")) == 2
    until(lambda: not _processes_of(user.pw_uid))
    assert not [path for log in pool.logs("orphan") for path in log.parent.glob("container")]


def _processes_of(uid: int) -> list[str]:
    found = []
    for path in Path("/proc").iterdir():
        try:
            if (
                path.name.isdigit()
                and path.stat().st_uid == uid
                and "State:\tZ" not in (path / "status").read_text()
            ):
                found.append(path.name)
        except OSError:
            continue
    return found
