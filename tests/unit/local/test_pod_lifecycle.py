"""A pod's process from its start to its end, and everything that tries to get away."""

import json
import os
import signal
from pathlib import Path

import pytest

from weir.control.port import PodExit
from weir.local.records import pod_files, state_dir
from weir.state.events import PodKey

from .harness import Rig, gone, kill, python, until

PRINT_ENV = python("import os, json", "print(json.dumps(dict(os.environ)))")


def test_what_ends_well_is_done(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "echo hello; echo oops >&2")
    assert rig.exit(pod).how is PodExit.DONE
    assert rig.log(pod) == "hello\noops\n"


def test_what_fails_has_failed_with_its_code(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "exit 3")
    exit_ = rig.exit(pod)
    assert exit_.how is PodExit.FAILED
    ended = state_dir.ended(rig.backend.home.directory(1, 1, 0, 0))
    assert ended is not None
    assert (ended.code, ended.sentence) == (3, "It ended with exit code 3.")


@pytest.mark.parametrize(
    ("command", "code"),
    [("no-such-program", 127), ("./no-such-program", 127), ("/", 126), ("/etc/passwd", 126)],
)
def test_what_cannot_be_run_fails_as_in_a_shell(rig: Rig, command: str, code: int) -> None:
    pod = rig.run(command, "secret-argument")
    assert rig.exit(pod).how is PodExit.FAILED
    ended = state_dir.ended(rig.backend.home.directory(1, 1, 0, 0))
    assert ended is not None
    assert ended.code == code
    assert rig.log(pod).startswith("weir: ")
    assert "secret" not in rig.log(pod)


def test_a_directory_that_is_missing_is_said(rig: Rig) -> None:
    rig.submit("true", directory="/no/such/place")
    rig.start(PodKey("job", 0, 0))
    assert rig.exit(PodKey("job", 0, 0)).how is PodExit.FAILED
    assert "/no/such/place" in rig.log(PodKey("job", 0, 0))


@pytest.mark.parametrize("missing", ["directory", "program"])
def test_start_again_without_its_files_is_lost_and_no_failure(rig: Rig, tmp_path: Path, missing: str) -> None:
    """After a reboot, the file system of a job may be mounted later than the pool begins."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "train").write_text("#!/bin/sh\nexit 1\n")
    (disk / "train").chmod(0o755)
    directory = str(disk if missing == "directory" else tmp_path)
    pod = rig.run(str(disk / "train"), directory=directory)
    assert rig.exit(pod).how is PodExit.FAILED
    disk.rename(tmp_path / "unmounted")
    rig.start(pod, start=2)
    ended = rig.exit(pod, 2)
    assert (ended.how, ended.final) == (PodExit.LOST, False)
    assert str(disk) in ended.sentence
    assert "It can start once" in ended.sentence
    assert "--directory" not in ended.sentence
    (tmp_path / "unmounted").rename(disk)
    rig.start(pod, start=3)
    assert rig.exit(pod, 3).code == 1


def test_it_knows_who_and_where_it_is(rig: Rig) -> None:
    pod = rig.run(*PRINT_ENV, environment=(("MINE", "a"), ("MASTER_PORT", "1"), ("WEIR_POD", "forged")))
    rig.exit(pod)
    env = json.loads(rig.log(pod))
    assert env["MINE"] == "a"
    assert env["MASTER_PORT"] == "1"
    assert env["WEIR_POD"] == "job/worker/0"
    assert env["WEIR_WORKLOAD"] == "job"
    assert env["WEIR_PROJECT"] == "team"
    assert env["WEIR_RESTARTS"] == "0"
    assert env["CUDA_VISIBLE_DEVICES"] == "0"
    assert env["WORLD_SIZE"] == "1"
    assert (rig.home / "checkpoints" / "1").samefile(env["WEIR_CHECKPOINT_DIR"])


def test_a_restart_knows_its_number_and_has_its_checkpoints(rig: Rig) -> None:
    pod = rig.run("sh", "-c", 'echo $WEIR_RESTARTS >> "$WEIR_CHECKPOINT_DIR/runs"; exit 1')
    rig.exit(pod)
    rig.start(pod, start=2)
    rig.exit(pod, 2)
    rig.crash()
    rig.start(pod, start=3)
    rig.exit(pod, 3)
    assert (rig.home / "checkpoints" / "1" / "runs").read_text() == "0\n1\n2\n"


def test_a_gang_meets_at_one_port(rig: Rig) -> None:
    rig.submit(*PRINT_ENV, pods=3)
    rig.start(*(PodKey("job", 0, at) for at in range(3)))
    envs = []
    for at in range(3):
        pod = PodKey("job", 0, at)
        rig.exit(pod, at + 1)
        envs.append(json.loads(rig.log(pod, at + 1)))
    assert [env["RANK"] for env in envs] == ["0", "1", "2"]
    assert [env["NODE_RANK"] for env in envs] == ["0", "1", "2"]
    assert {env["WORLD_SIZE"] for env in envs} == {"3"}
    assert {env["LOCAL_RANK"] for env in envs} == {"0"}
    assert len({env["MASTER_PORT"] for env in envs}) == 1
    assert int(envs[0]["MASTER_PORT"]) > 1024


def test_starting_again_what_was_started_does_nothing(rig: Rig) -> None:
    pod = rig.run("sh", "-c", 'echo run >> "$WEIR_CHECKPOINT_DIR/runs"')
    rig.start(pod)
    rig.exit(pod)
    rig.start(pod)
    rig.stop(pod)
    assert (rig.home / "checkpoints" / "1" / "runs").read_text() == "run\n"
    assert not rig.backend.pods()


def test_notice_is_given_and_heard(rig: Rig) -> None:
    pod = rig.run(
        *python(
            "import os, signal",
            "notice = {signal.SIGTERM}",
            "signal.pthread_sigmask(signal.SIG_BLOCK, notice)",
            "print('ready')",
            "signal.sigwait(notice)",  # a handler might come just before a sleep, and wait for its end
            "print('saving', os.path.exists(os.environ['WEIR_POD_DIRECTORY'] + '/stop.json'))",
        )
    )
    rig.says(pod, "ready")
    rig.stop(pod)
    assert rig.exit(pod).how is PodExit.STOPPED
    assert "saving True" in rig.log(pod)


def test_who_ignores_notice_is_ended(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 3600; done")
    rig.says(pod, "ready")
    rig.stop(pod, grace_s=0.05)
    assert rig.exit(pod).how is PodExit.STOPPED


def test_a_second_notice_may_be_shorter(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 3600; done")
    rig.says(pod, "ready")
    rig.stop(pod, grace_s=3600)
    rig.stop(pod, grace_s=0.0)
    assert rig.exit(pod).how is PodExit.STOPPED


def test_a_stopped_process_hears_its_notice(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "trap 'echo bye; exit 0' TERM; echo $$; while :; do sleep 0.01; done")
    pid = int(rig.says(pod, "\n"))
    os.kill(pid, signal.SIGSTOP)
    rig.stop(pod, grace_s=60)
    assert rig.exit(pod).how is PodExit.STOPPED
    assert "bye" in rig.log(pod)


def test_a_stop_that_comes_before_the_start_wins(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "trap '' TERM; sleep 3600")
    rig.stop(pod, grace_s=0.0)
    assert rig.exit(pod).how is PodExit.STOPPED


FORKS_AWAY = python(
    "import os, signal, time",
    "if os.fork(): os._exit(0)",
    "os.setsid()",
    "if os.fork(): os._exit(0)",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "print(os.getpid())",
    "time.sleep(3600)",
)


def test_what_forks_away_is_ended_with_its_pod(rig: Rig) -> None:
    pod = rig.run("sh", "-c", '"$@"; exec sleep 3600', "sh", *FORKS_AWAY)
    away = int(rig.says(pod, "\n"))
    rig.stop(pod, grace_s=0.05)
    assert rig.exit(pod).how is PodExit.STOPPED
    assert gone(away)


def test_a_pod_is_over_with_its_first_process(rig: Rig) -> None:
    pod = rig.run(*FORKS_AWAY, grace_s=0.05)
    assert rig.exit(pod).how is PodExit.DONE
    assert gone(int(rig.log(pod) or "0"))


def test_a_shell_that_dies_leaves_its_child_the_time_to_save(rig: Rig) -> None:
    child = "trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    pod = rig.run("sh", "-c", 'sh -c "$1"; true', "sh", child)
    rig.says(pod, "ready")
    rig.stop(pod, grace_s=60)
    assert rig.exit(pod).how is PodExit.STOPPED
    assert "saved" in rig.log(pod)


def test_child_in_a_session_of_its_own_gets_notice_when_its_parent_dies_of_it(rig: Rig) -> None:
    """As a container does whose runtime was stopped while it still started it."""
    child = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    pod = rig.run("sh", "-c", 'setsid sh -c "$1"; true', "sh", child)
    rig.says(pod, "ready")
    rig.stop(pod, grace_s=60)
    assert rig.exit(pod).how is PodExit.STOPPED
    assert "saved" in rig.log(pod)


def supervisor_of(rig: Rig, pod: PodKey, start: int = 1) -> int:
    born = pod_files.signed(str(rig.directory(pod, start)))
    assert born is not None
    return born.pid


def test_a_killed_supervisor_takes_its_pod_along(rig: Rig) -> None:
    pod = rig.run("sh", "-c", '"$@"; exec sleep 3600', "sh", *FORKS_AWAY)
    away = int(rig.says(pod, "\n"))
    kill(supervisor_of(rig, pod))
    assert rig.exit(pod).how is PodExit.LOST
    assert gone(away)


def test_a_pod_whose_environment_is_gone_is_found_by_its_session(rig: Rig) -> None:
    pod = rig.run("env", "-i", "/bin/sh", "-c", "echo $$; sleep 3600; true")
    pid = int(rig.says(pod, "\n"))
    kill(supervisor_of(rig, pod))
    assert rig.exit(pod).how is PodExit.LOST
    assert gone(pid)


def test_a_killed_node_process_is_replaced(rig: Rig) -> None:
    for at in range(5):
        kill(rig.backend._node.pid)
        pod = rig.run("sh", "-c", 'echo run >> "$WEIR_CHECKPOINT_DIR/runs"', name=f"job{at}")
        assert rig.exit(pod).how is PodExit.DONE
        assert (rig.home / "checkpoints" / str(at + 1) / "runs").read_text() == "run\n"


def test_a_log_and_directories_are_their_owners(rig: Rig) -> None:
    pod = rig.run("true")
    rig.exit(pod)
    assert rig.home.stat().st_mode & 0o77 == 0
    assert all(path.stat().st_mode & 0o77 == 0 for path in rig.directory(pod).iterdir())


def test_the_watch_sleeps_when_nothing_happens(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "echo ready; exec sleep 3600")
    rig.says(pod, "ready")
    until(lambda: rig.backend.pods()[0].since_s is not None)
    supervisor = supervisor_of(rig, pod)
    until(lambda: (pod_files.stat_of(supervisor) or [b""])[0] == b"S")
    assert rig.backend._watch._pause_s() == -1.0


def test_a_job_hears_all_signals_however_the_pool_was_started(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status")
    rig.exit(pod)
    of_the_library = 3 << 31  # signals 32 and 33 belong to the C library
    assert not any(int(line.split()[1], 16) & ~of_the_library for line in rig.log(pod).splitlines())


def test_a_directory_with_an_endless_name_is_one_failure_and_a_short_line(rig: Rig) -> None:
    pod = rig.run("true", directory="/" + "x" * 200_000)
    ended = rig.exit(pod)
    assert (ended.how, ended.code) == (PodExit.FAILED, 126)
    assert len(rig.log(pod)) < 1000


def test_a_job_inherits_no_files(rig: Rig) -> None:
    pod = rig.run(*python("import os", "print(sorted(os.listdir('/proc/self/fd')))"))
    rig.exit(pod)
    assert rig.log(pod) == "['0', '1', '2', '3']\n"  # the last is the listing itself
