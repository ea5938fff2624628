"""Trust in the directories of a start."""

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.unit.local.harness import Rig, gone, kill, python, until
from tests.unit.local.hostile_files import FILES, HUGE_NOTE, away

from weir.control.port import PodExit, PodExited, PodRunning
from weir.local.files import job_files
from weir.local.files.job_files import UnreadableFile, open_file, read_whole
from weir.local.records import pod_files
from weir.local.records.job_messages import read_messages
from weir.local.supervisor import output
from weir.local.supervisor.output import read_on, tail_of
from weir.state.events import Checkpointed, PodKey

WAITS = ("sh", "-c", "echo $$; exec sleep 3600")


def of(facts: list, kind: type) -> list:
    return [fact for fact in facts if isinstance(fact, kind)]


@pytest.fixture(params=[True, False], ids=["openat2", "step by step"])
def start(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a start, by each way of opening files."""
    monkeypatch.setattr(job_files, "_HAS_OPENAT2", request.param and job_files._HAS_OPENAT2)
    path = tmp_path / "jobs" / "1" / "1-0-0"
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize("kind", FILES)
def test_only_a_regular_file_is_opened(start: Path, kind: str) -> None:
    FILES[kind](start / "f")
    found = read_whole(str(start), "f", 1 << 22)
    if (start / "f").is_file() and not (start / "f").is_symlink() and kind != "a terabyte":
        if kind != "a closed file" or os.geteuid() == 0:
            assert found == (start / "f").read_bytes()
    elif kind == "nothing":
        assert found is None
    else:
        assert isinstance(found, UnreadableFile), found
        assert found.sentence.startswith("f ")
    read_messages(str(start), 0, 10.0)
    read_on(str(start / "f"), 0, 100)
    tail_of(str(start / "f"), 3)


@pytest.mark.parametrize("at", [0, 1])
def test_no_link_is_followed_on_the_way(start: Path, at: int) -> None:
    (start / "f").write_text("text")
    linked = [start, start.parent][at]
    linked.rename(linked.with_name("moved"))
    linked.symlink_to(linked.with_name("moved"))
    assert isinstance(read_whole(str(start), "f", 100), UnreadableFile)
    linked.unlink()
    linked.write_text("no directory")
    assert isinstance(read_whole(str(start), "f", 100), UnreadableFile)
    linked.unlink()
    assert read_whole(str(start), "f", 100) is None


def test_a_file_system_of_its_own_is_not_entered(start: Path) -> None:
    import subprocess

    if subprocess.run(
        ["mount", "-t", "tmpfs", "none", str(start)], capture_output=True, check=False
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (start / "f").write_text("text")
        assert isinstance(open_file(str(start), "f"), UnreadableFile)
    finally:
        subprocess.run(["umount", str(start)], check=True)


def test_a_claimed_end_counts_only_when_the_lock_is_free(rig: Rig) -> None:
    pod = rig.run(*WAITS)
    pid = int(rig.says(pod, "\n"))
    for directory in (rig.directory(pod), rig.own(pod)):
        (directory / pod_files.EXIT).write_text(
            json.dumps({"code": 0, "at_s": time.time(), "stopped": False})
        )
    facts = rig.crash()
    assert of(facts, PodRunning)
    assert not of(facts, PodExited)
    assert not gone(pid)
    os.kill(pid, signal.SIGKILL)
    assert rig.exit(pod).how is PodExit.FAILED


def test_a_claimed_end_beside_a_forged_lock_leaves_nothing_running(rig: Rig) -> None:
    pod = rig.run(*WAITS)
    pid = int(rig.says(pod, "\n"))
    (rig.directory(pod) / pod_files.LOCK).unlink()
    (rig.directory(pod) / pod_files.EXIT).write_text(json.dumps({"code": 0, "at_s": 1e14}))
    rig.crash()
    exit_ = rig.exit(pod)
    assert exit_.how is PodExit.LOST
    assert exit_.at_s <= time.time()
    assert gone(pid), "its devices are free only now"


@pytest.mark.parametrize("kind", ["no text", "a FIFO", "a link to nothing", "a directory", "nothing"])
def test_a_start_whose_order_cant_be_read_is_lost_and_named(rig: Rig, kind: str) -> None:
    pod = rig.run(*WAITS)
    pid = int(rig.says(pod, "\n"))
    (rig.directory(pod) / pod_files.START).unlink()
    FILES[kind](rig.directory(pod) / pod_files.START)
    rig.backend.connect()
    again = list(rig.backend.events())
    assert of(again, PodRunning), "the server that started it knows it still"
    assert not of(again, PodExited)
    rig.crash()
    exit_ = rig.exit(pod)
    assert exit_.how is PodExit.LOST
    assert exit_.sentence.startswith("Its spec can't be read: start.json ")
    assert gone(pid)
    other = rig.run("true", name="other")
    assert rig.exit(other).how is PodExit.DONE


def test_an_order_of_another_start_is_no_order(rig: Rig) -> None:
    one, other = rig.run(*WAITS, name="one"), rig.run(*WAITS, name="other")
    rig.says(one, "\n")
    rig.says(other, "\n")
    (rig.directory(one) / pod_files.START).write_bytes((rig.directory(other) / pod_files.START).read_bytes())
    rig.crash()
    assert "belongs to another start" in rig.exit(one).sentence
    assert not [fact for fact in of(rig.relisted, PodExited) if fact.pod == other]


def test_notes_that_cant_be_read_are_passed_over_and_said_once(rig: Rig) -> None:
    pod = rig.run("sh", "-c", 'mkfifo "$WEIR_POD_DIRECTORY/notes.jsonl"; echo ready; exec sleep 3600')
    rig.says(pod, "ready")
    run = rig.backend._running[rig.backend.home.start_name(str(rig.directory(pod)))]
    for _ in range(3):
        rig.backend._notes.read(run)
    rig.backend.connect()
    list(rig.backend.events())
    assert rig.refused == [(pod, "Its messages are ignored: notes.jsonl is a FIFO.")]
    rig.stop(pod, grace_s=0.0)
    assert rig.exit(pod).how is PodExit.STOPPED


def test_a_note_with_a_huge_number_ends_its_job_as_it_ended(rig: Rig) -> None:
    note = HUGE_NOTE.decode().strip().replace('"', '\\"')
    pod = rig.run("sh", "-c", f'echo "{note}" > "$WEIR_POD_DIRECTORY/notes.jsonl"')
    assert rig.exit(pod).how is PodExit.DONE
    assert of(rig.crash(), PodExited)[0].how is PodExit.DONE


def test_the_end_of_many_notes_is_read(rig: Rig) -> None:
    write = "note({'kind': 'checkpointed', 'at_s': 5.0, 'step': 1}); [note({'kind': 'report', 'at_s': 6.0, 'step': at}) for at in range(40_000)]"
    pod = rig.run(
        *python(
            "import json, os",
            "file = open(os.environ['WEIR_POD_DIRECTORY'] + '/notes.jsonl', 'w')",
            "note = lambda said: print(json.dumps(said), file=file)",
            write,
            "note({'kind': 'checkpointed', 'at_s': 7.0, 'step': 2})",
        )
    )
    rig.exit(pod)
    (saved,) = of(rig.facts, Checkpointed)
    assert saved.at_s >= of(rig.facts, PodExited)[0].at_s - 60, "no time from before its start is believed"
    assert [note.step for _, note in rig.noted][-2:] == [39_999, 2]


def test_a_job_learns_nothing_of_its_records(rig: Rig) -> None:
    pod = rig.run("env")
    rig.exit(pod)
    assert str(rig.own(pod)) in rig.log(pod)
    assert str(rig.directory(pod)) not in rig.log(pod)
    assert sorted(path.name for path in rig.own(pod).iterdir()) == ["log"]


def test_a_start_that_cant_be_written_down_fails_alone(rig: Rig) -> None:
    kept = rig.submit("true", name="blocked")
    (rig.home / "pods" / str(kept.launch.uid)).write_text("no directory")
    rig.start(PodKey("blocked", 0, 0))
    exit_ = rig.exit(PodKey("blocked", 0, 0))
    assert exit_.how is PodExit.FAILED
    assert "Not a directory" in exit_.sentence
    rig.crash()
    assert rig.exit(rig.run("true", name="other")).how is PodExit.DONE


def test_a_home_that_takes_no_start_is_the_pool_s_matter(rig: Rig) -> None:
    rig.submit("true")
    (rig.home / "pods").rename(rig.home / "elsewhere")
    with pytest.raises(OSError, match="No such file") as raised:
        rig.start(PodKey("job", 0, 0))
    assert raised.value.errno == errno.ENOENT
    (rig.home / "elsewhere").rename(rig.home / "pods")


def test_an_own_directory_that_is_none_says_so(rig: Rig, tmp_path: Path) -> None:
    kept = rig.submit("true", name="blocked")
    (rig.home / "jobs" / str(kept.launch.uid)).symlink_to(tmp_path)
    rig.start(PodKey("blocked", 0, 0))
    exit_ = rig.exit(PodKey("blocked", 0, 0))
    assert exit_.how is PodExit.FAILED
    assert "is a link, or lies below one" in exit_.sentence
    assert not list(tmp_path.glob("1-0-0/*"))


def test_weir_s_own_lines_do_nothing_to_a_terminal(rig: Rig) -> None:
    pod = rig.run("no\x1b]0;x\x07such", "argument")
    rig.exit(pod)
    assert rig.log(pod).startswith("weir: The program no\\x1b]0;x\\x07such was not found.")
    assert "\x1b" not in rig.log(pod)


def test_the_last_lines_of_one_endless_line_are_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_BACK_MAX", 1 << 20)
    path = tmp_path / "log"
    path.write_bytes(b"first\n" + b"x" * (3 << 20))
    assert tail_of(str(path), 1) == path.stat().st_size - (1 << 20)
    path.write_bytes(b"x" * 1000 + b"\nlast\n")
    assert tail_of(str(path), 1) == 1001
    assert tail_of(str(path), 0) == path.stat().st_size
    assert tail_of(str(path), 5) == 0


def test_a_supervisor_killed_with_a_free_lock_is_lost_once(rig: Rig) -> None:
    pod = rig.run(*WAITS)
    rig.says(pod, "\n")
    born = pod_files.signed(str(rig.directory(pod)))
    assert born is not None
    kill(born.pid)
    assert rig.exit(pod).how is PodExit.LOST
    until(lambda: not rig.backend.pods())
    assert len(rig._exits(pod, 1)) == 1


TAKES_THE_LOCK = python(
    "import fcntl, os, signal, time",
    "records = os.path.dirname(os.environ['WEIR_NOTES']) + '/pods/' + os.environ['WEIR_POD_ID']",
    "os.kill(os.getppid(), signal.SIGKILL)",
    "fcntl.flock(os.open(records + '/lock', os.O_RDWR), fcntl.LOCK_EX)",
    "print(os.getpid())",
    "time.sleep(3600)",
)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_that_takes_the_lock_of_its_supervisor_is_ended(rig: Rig, restarts: bool) -> None:
    rig.run(*TAKES_THE_LOCK)
    if restarts:
        rig.crash()
    exit_ = rig.exit(PodKey("job", 0, 0))
    assert exit_.how is PodExit.LOST


def test_a_read_that_fails_costs_that_file(start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (start / "f").write_text("text")

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(job_files.os, "read", fails)
        assert isinstance(read_whole(str(start), "f", 100), UnreadableFile)
    assert read_whole(str(start), "f", 100) == b"text"


@pytest.mark.parametrize("kind", FILES)
def test_anything_in_place_of_all_records_of_a_workload(rig: Rig, kind: str) -> None:
    pod = rig.run(*WAITS)
    pid = int(rig.says(pod, "\n"))
    until(lambda: pod_files.has(str(rig.directory(pod)), pod_files.RUNNING))
    place = rig.directory(pod).parent
    away(place)
    FILES[kind](place)
    rig.crash()
    assert rig.exit(rig.run("true", name="other")).how is PodExit.DONE
    rig.start(pod, start=5)
    rig.stop(pod, start=5, grace_s=0.0)
    until(lambda: not rig.backend.pods())
    kill(pid)
