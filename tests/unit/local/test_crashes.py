"""Killed processes and full disks, and the state after recovery."""

import errno
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from weir.control.journal import JournalFailed, WorkloadRecord
from weir.control.port import (
    CancelRequested,
    EndWorkload,
    PodExit,
    PodExited,
    PodRunning,
    ReserveNomination,
    SaveProgress,
    StartPod,
    StatusRecovered,
    WorkloadProgress,
)
from weir.local.backend import LocalBackend
from weir.local.pods import supervisor_watch
from weir.local.records import pod_files, state_dir
from weir.local.records.state_dir import StateDirInUse
from weir.state.events import (
    Checkpointed,
    Nominated,
    Placement,
    PodKey,
    WorkloadChanged,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)

from .harness import Rig, gone, kill, until

WAITS = ("sh", "-c", "echo ready; exec sleep 3600")


def of(facts: list, kind: type) -> list:
    return [fact for fact in facts if isinstance(fact, kind)]


def test_a_running_pod_is_found_again_and_can_be_stopped(rig: Rig) -> None:
    pod = rig.run(*WAITS)
    rig.says(pod, "ready")
    facts = rig.crash()
    assert [(fact.place, fact.start, fact.stopping) for fact in of(facts, PodRunning)] == [
        (Placement(pod, "here", (0,)), 1, False)
    ]
    assert of(facts, StatusRecovered)[0].status.starts == 1
    assert not of(facts, PodExited)
    rig.stop(pod)
    assert rig.exit(pod).how is PodExit.STOPPED


def test_an_unseen_end_is_found(rig: Rig) -> None:
    os.mkfifo(rig.home / "go")
    pod = rig.run("sh", "-c", "echo ready; read x < go; exit 4")
    rig.says(pod, "ready")
    directory = str(rig.directory(pod))
    rig.backend.close()
    (rig.home / "go").write_text("go\n")
    until(lambda: pod_files.has(directory, pod_files.EXIT))
    rig.backend = rig._backend()
    assert rig.exit(pod).how is PodExit.FAILED  # at once, or when the supervisor has let go of its lock


def test_a_stop_asked_for_before_the_crash_goes_on(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
    rig.says(pod, "ready")
    born = pod_files.signed(str(rig.directory(pod)))
    assert born is not None
    os.kill(born.pid, signal.SIGSTOP)  # so that it doesn't end while the server starts again
    rig.stop(pod, grace_s=0.3)
    facts = rig.crash()
    os.kill(born.pid, signal.SIGCONT)
    assert of(facts, PodRunning)[0].stopping
    assert rig.exit(pod).how is PodExit.STOPPED


def test_a_supervisor_killed_without_a_server_is_settled(rig: Rig) -> None:
    pod = rig.run(*WAITS)
    rig.says(pod, "ready")
    born = pod_files.signed(str(rig.directory(pod)))
    assert born is not None
    supervised = pod_files.descendants(born.pid)
    rig.backend.close()
    kill(born.pid)
    until(lambda: gone(born.pid))
    rig.backend = rig._backend()
    facts = list(rig.backend.events())
    assert of(facts, PodExited)[0].how is PodExit.LOST
    assert all(gone(pid) for pid in supervised)


def test_a_start_under_way_when_the_server_dies_is_carried_out_once(rig: Rig) -> None:
    """The order has the lock, so the next server takes the start for one that runs."""
    rig.submit("sh", "-c", "echo ran >> runs", directory=str(rig.home))
    pod = PodKey("job", 0, 0)
    earlier = rig.backend
    os.kill(earlier._node.pid, signal.SIGSTOP)
    rig.start(pod)
    earlier._watch.close()
    earlier._node._starts.close()  # as the kernel does when the server is killed
    earlier._node._calls.close()
    earlier._wakeups._socket.close()
    earlier.home.leave()
    rig.backend = rig._backend()
    rig.facts, rig.relisted = [], list(rig.backend.events())
    assert of(rig.relisted, PodRunning)
    assert not of(rig.relisted, PodExited)
    os.kill(earlier._node.pid, signal.SIGCONT)
    assert rig.exit(pod).how is PodExit.DONE
    assert (rig.home / "runs").read_text() == "ran\n"
    earlier._node._link.close()


def test_a_job_that_keeps_its_supervisor_stopped_is_ended(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_watch, "_ENFORCED_AFTER_S", 0.3)
    pod = rig.run("sh", "-c", "trap '' TERM; echo ready; while :; do kill -STOP $PPID; done")
    rig.says(pod, "ready")
    rig.stop(pod, grace_s=0.1)
    assert rig.exit(pod).how is PodExit.LOST
    born = pod_files.signed(str(rig.directory(pod)))
    assert born is not None
    assert not born.lives()


def test_an_order_lost_with_the_node_process_was_no_start(rig: Rig) -> None:
    rig.submit("sh", "-c", "touch ran", directory=str(rig.home))
    pod = PodKey("job", 0, 0)
    os.kill(rig.backend._node.pid, signal.SIGSTOP)
    rig.start(pod)
    assert of(rig.crash(), PodExited)[0].how is PodExit.LOST
    assert not (rig.home / "ran").exists()


def test_a_start_never_written_whole_counts_but_was_none(rig: Rig) -> None:
    rig.submit("true")
    (rig.home / "pods" / "1" / "7-0-0").mkdir(parents=True)
    facts = rig.crash()
    assert of(facts, StatusRecovered)[0].status.starts == 7
    assert not of(facts, PodRunning)


def test_settled_starts_are_not_reported_again(rig: Rig) -> None:
    pod = rig.run("false")
    rig.exit(pod)
    rig.backend.apply([SaveProgress("job", WorkloadProgress(1, 1, 1, 0.0, None))])
    facts = rig.crash()
    assert not of(facts, PodRunning)
    assert of(facts, StatusRecovered)[0].status == WorkloadProgress(1, 1, 1, 0.0, None)


def test_requests_of_people_come_after_running_pods(rig: Rig) -> None:
    pod = rig.run(*WAITS)
    rig.says(pod, "ready")
    kept = rig.journal.kept["job"]
    rig.journal.kept["job"] = replace(kept, suspended="a break", withdrawn_s=3.0, saved_s=2.0)
    kinds = [type(fact) for fact in rig.crash()[2:]]
    assert kinds == [
        WorkloadSubmitted,
        StatusRecovered,
        PodRunning,
        Checkpointed,
        WorkloadSuspended,
        CancelRequested,
    ]


def test_variables_changed_while_the_journal_is_read_are_those_of_the_next_start(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial promoted meanwhile would otherwise run to the rung that it has left."""
    old = rig.submit("sh", "-c", "echo rung $RUNG", environment=(("RUNG", "1"),))
    new = replace(old, launch=replace(old.launch, environment=(("RUNG", "3"),)))
    workloads = rig.journal.workloads

    def changed_once_read() -> list[WorkloadRecord]:
        found = list(workloads())
        rig.journal.add(new)
        rig.backend.changed(new, 1.0)
        return found

    monkeypatch.setattr(rig.journal, "workloads", changed_once_read)
    rig.backend.connect()
    list(rig.backend.events())
    assert of(list(rig.backend.events()), WorkloadChanged) == [WorkloadChanged(new.workload, 1.0)]
    pod = PodKey("job", 0, 0)
    rig.start(pod)
    rig.says(pod, "rung 3")


def test_a_nomination_is_kept_until_its_pods_start(rig: Rig) -> None:
    rig.submit("sleep", "3600", pods=2)
    first, second = PodKey("job", 0, 0), PodKey("job", 0, 1)
    places = (Placement(first, "here", (0,)), Placement(second, "here", (1,)))
    nomination = Nominated("job", places, 0.0)
    rig.backend.apply([ReserveNomination(nomination)])
    assert of(rig.crash(), Nominated) == [nomination]
    rig.backend.apply([StartPod(places[0], 1)])
    assert of(rig.crash(), Nominated) == [Nominated("job", places[1:], 0.0)]
    rig.backend.apply([StartPod(places[1], 2)])
    assert not of(rig.crash(), Nominated)


def test_what_is_over_is_forgotten_and_its_log_stays(rig: Rig) -> None:
    pod = rig.run("echo", "hello")
    rig.exit(pod)
    log = rig.own(pod) / "log"
    rig.backend.apply([EndWorkload("job", WorkloadOutcome.SUCCEEDED, 1.0)])
    assert not of(rig.crash(), WorkloadSubmitted)
    assert log.read_text() == "hello\n"
    rig.backend.home.forget(1)
    assert not log.exists()


def test_a_name_can_be_used_again_at_once(rig: Rig) -> None:
    """Submitted between the moment its predecessor's end is kept and the moment it is forgotten."""
    pod = rig.run("true")
    rig.exit(pod)
    keep = rig.journal.keep

    def and_again(*args: object) -> None:
        keep(*args)
        rig.submit("sh", "-c", "exit 5")

    rig.journal.keep = and_again
    rig.backend.apply([EndWorkload("job", WorkloadOutcome.SUCCEEDED, 1.0)])
    rig.facts.clear()
    rig.relisted.clear()
    rig.start(pod)
    assert rig.exit(pod).how is PodExit.FAILED


def test_two_pools_cannot_have_one_home(rig: Rig) -> None:
    with pytest.raises(StateDirInUse, match="another pool"):
        LocalBackend(rig.journal, rig.home, rig.machine)


def test_a_journal_that_fails_breaks_off_before_anything_starts(rig: Rig) -> None:
    rig.submit("true")
    rig.journal.fails = JournalFailed(errno.ENOSPC, "No space left on device")
    start = StartPod(Placement(PodKey("job", 0, 0), "here", (0,)), 1)
    with pytest.raises(OSError, match="No space"):
        rig.backend.apply([SaveProgress("job", WorkloadProgress()), start])
    assert not rig.backend.pods()
    rig.journal.fails = None
    rig.backend.connect()
    assert not of(list(rig.backend.events()), PodRunning)
    rig.backend.apply([SaveProgress("job", WorkloadProgress()), start])
    assert rig.exit(PodKey("job", 0, 0)).how is PodExit.DONE


def test_a_full_disk_refuses_a_start_and_leaves_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.submit("true")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pod_files.os, "write", full)
        with pytest.raises(OSError, match="No space"):
            rig.start(PodKey("job", 0, 0))
    assert not list((rig.home / "pods" / "1").iterdir())
    rig.start(PodKey("job", 0, 0))
    assert rig.exit(PodKey("job", 0, 0)).how is PodExit.DONE


@pytest.fixture
def small_disk(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no disk of our own can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_full_for_a_while_loses_no_end(small_disk: Path) -> None:
    rig = Rig(small_disk / "home")
    filler = small_disk / "filler"
    try:
        os.mkfifo(small_disk / "go")
        pod = rig.run("sh", "-c", "read x < go; exit 4", directory=str(small_disk))
        directory = str(rig.directory(pod))
        until(lambda: pod_files.has(directory, pod_files.RUNNING))
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        rig.submit("true", name="refused")
        with pytest.raises(OSError, match="No space"):
            rig.start(PodKey("refused", 0, 0))
        leader = pod_files.read_object(directory, pod_files.RUNNING)["leader"]
        (small_disk / "go").write_text("go\n")
        until(lambda: gone(leader))
        assert rig.backend.pods()  # it can't say how it ended, so it doesn't count as over
        assert pod_files.take_lock(directory) is None
        filler.unlink()
        assert rig.exit(pod).how is PodExit.FAILED
        ended = state_dir.ended(rig.backend.home.directory(1, 1, 0, 0))
        assert ended is not None
        assert ended.how is PodExit.FAILED
    finally:
        rig.close()


def test_a_start_repeated_when_it_is_over_takes_no_seat(rig: Rig) -> None:
    rig.submit("sh", "-c", "echo $WORLD_SIZE", pods=2)
    both = PodKey("job", 0, 0), PodKey("job", 0, 1)
    rig.start(*both)
    for at, pod in enumerate(both):
        rig.exit(pod, at + 1)
    rig.start(*both)
    assert not rig.backend._ports.used
    rig.start(*both, start=3)
    rig.exit(both[0], 3)
    assert rig.log(both[0], 3) == "2\n"


def test_a_supervisor_whose_home_is_gone_ends(rig: Rig) -> None:
    pod = rig.run(*WAITS)
    rig.says(pod, "ready")
    directory = rig.directory(pod)
    born = pod_files.signed(str(directory))
    assert born is not None
    until(lambda: pod_files.has(str(directory), pod_files.RUNNING))
    shutil.rmtree(directory)
    os.kill(born.pid, signal.SIGTERM)
    assert rig.exit(pod).how is PodExit.LOST
    assert gone(born.pid)
