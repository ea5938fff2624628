"""Whatever a job puts into its own directory, other jobs start, end and are charged right, over a restart too."""

import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.properties.budget import EFFORT
from tests.unit.local.harness import gone
from tests.unit.local.hostile_files import FILES, away, random_file

from weir.control.port import CancelRequested
from weir.local.records import pod_files
from weir.local.records.job_messages import SOCKET
from weir.state.events import WorkloadOutcome

from .pool import Pool

NAMES = ("notes.jsonl", "log", "stop.json", "exit.json", "start.json", "lock", "running.json", "any name")
RECORDS = (
    pod_files.START,
    pod_files.EXIT,
    pod_files.RUNNING,
    pod_files.STOP,
    pod_files.LOCK,
)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    pool = Pool(tmp_path / "home", devices=40)
    try:
        yield pool
    finally:
        pool.close()


def hostile(pool: Pool, names: list[str]) -> dict[str, str]:
    """Jobs of these names, all running; their directories."""
    for name in names:
        pool.submit(name, "sleep", "3600", devices=0, grace_s=0.0)
    pool.step_until(lambda: set(names) <= set(running(pool)), lambda: running(pool))
    return running(pool)


def running(pool: Pool) -> dict[str, str]:
    """The directories of jobs whose processes are there."""
    return {
        run.place.pod.workload: run.directory
        for run in pool.backend.pods()
        if run.since_s is not None and pod_files.has(run.directory, pod_files.RUNNING)
    }


def poke(pool: Pool, directory: str) -> None:
    """As a job that has noted something."""
    place = os.open(pool.home, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(pool.backend.home.start_name(directory).encode(), f"/proc/self/fd/{place}/{SOCKET}")
    os.close(place)


def neighbours_are_right(pool: Pool, began_s: float, *names: str) -> None:
    """New jobs run on all devices, all at once, and each is charged for its own time."""
    for name in names:
        pool.submit(name, "sleep", "0.05", devices=40 // len(names))
    pool.step_until(lambda: all(map(pool.ended, names)), lambda: [end.workload for end in pool.journal.ends])
    for end in pool.journal.ends:
        if end.workload in names:
            assert end.how is WorkloadOutcome.SUCCEEDED, end
            assert 0.05 <= end.ran_s <= time.time() - began_s, end
            assert began_s <= end.at_s <= time.time(), end


def stop_all(pool: Pool, names: list[str]) -> None:
    pool.control.step()  # a control that has just begun takes its facts for part of the whole state
    for name in names:
        if pool.ended(name) is None:
            pool.backend.tell(CancelRequested(name, time.time()))
    pool.step_until(lambda: all(map(pool.ended, names)), lambda: [n for n in names if not pool.ended(n)])


def test_any_file_in_a_directory_of_its_own(pool: Pool) -> None:
    cases = {f"h{at}": case for at, case in enumerate((kind, name) for kind in FILES for name in NAMES[:2])}
    others = [(kind, NAMES[2 + at % 6]) for at, kind in enumerate(FILES)]
    cases |= {f"o{at}": case for at, case in enumerate(others)}
    began_s = time.time()
    pool.submit("witness", "sh", "-c", f"until [ -e {pool.home}/go ]; do sleep 0.05; done", devices=0)
    directories = hostile(pool, list(cases))
    directories.pop("witness", None)
    for job, (kind, name) in cases.items():
        own = Path(pod_files.own_directory(directories[job]))
        away(own / name)
        FILES[kind](own / name)
        poke(pool, directories[job])
    neighbours_are_right(pool, began_s, "before", "beside")
    pool.crash()
    for directory in directories.values():
        poke(pool, directory)
    neighbours_are_right(pool, began_s, "after", "again")
    (pool.home / "go").touch()
    pool.step_until(lambda: pool.ended("witness"))
    assert pool.ended("witness") is WorkloadOutcome.SUCCEEDED
    stop_all(pool, list(cases))
    assert {pool.ended(name) for name in cases} == {WorkloadOutcome.STOPPED}
    assert not pool.backend.pods()


def test_any_thing_in_place_of_its_directory(pool: Pool) -> None:
    cases = {f"h{at}": kind for at, kind in enumerate(FILES)}
    began_s = time.time()
    directories = hostile(pool, list(cases))
    for at, (job, kind) in enumerate(cases.items()):
        own = Path(pod_files.own_directory(directories[job]))
        place = own if at % 2 else own.parent
        away(place)
        FILES[kind](place)
        poke(pool, directories[job])
    neighbours_are_right(pool, began_s, "before")
    pool.crash()
    neighbours_are_right(pool, began_s, "after")
    stop_all(pool, list(cases))
    assert {pool.ended(name) for name in cases} == {WorkloadOutcome.STOPPED}


def test_any_file_in_place_of_a_record(pool: Pool) -> None:
    """A job knows nothing of the records, but runs as the same user: then it loses, and no other job."""
    cases = {f"h{at}": kind for at, kind in enumerate(FILES)}
    began_s = time.time()
    directories = hostile(pool, list(cases))
    processes = {
        job: pod_files.read_object(each, pod_files.RUNNING)["leader"] for job, each in directories.items()
    }
    for at, (job, kind) in enumerate(cases.items()):
        record = Path(directories[job], RECORDS[at % len(RECORDS)])
        away(record)
        FILES[kind](record)
    neighbours_are_right(pool, began_s, "before")
    pool.crash()
    neighbours_are_right(pool, began_s, "after")
    stop_all(pool, list(cases))
    assert all(gone(pid) for pid in processes.values())


def test_a_job_that_is_in_the_way_of_its_own_next_start(pool: Pool) -> None:
    """It makes the directories of starts to come, and then fails."""
    began_s = time.time()
    kinds = [kind for kind in FILES if kind != "nothing"]
    jobs = {f"h{at}": kind for at, kind in enumerate(kinds)}
    saved = {name: Path(pool.submit(name, "sh", "-c", WAITS, devices=0, grace_s=0.0)) for name in jobs}
    pool.step_until(lambda: all((place / "runs").exists() for place in saved.values()))
    for at, (name, kind) in enumerate(jobs.items()):
        uid = saved[name].name
        for start in range(2, 5):
            FILES[kind](pool.home / ("pods" if at % 2 else "jobs") / uid / f"{start}-0-0")
        (pool.home / "pods" / uid / "1-²-0").mkdir()
        (pool.home / "pods" / uid / "1--0").mkdir()
        (pool.home / "pods" / uid / "7-9-99").mkdir()
        (pool.home / "pods" / uid / f"{10**11}-0-0").mkdir()
        (saved[name] / "go").touch()
    neighbours_are_right(pool, began_s, "before")
    pool.crash()
    neighbours_are_right(pool, began_s, "after")
    for place in saved.values():
        (place / "done").touch()
    pool.step_until(lambda: all(map(pool.ended, jobs)), lambda: [n for n in jobs if not pool.ended(n)])
    assert {pool.ended(name) for name in jobs} == {WorkloadOutcome.SUCCEEDED}, (
        "all that was in the way was passed"
    )


WAITS = """
echo run >> "$WEIR_CHECKPOINT_DIR/runs"
until [ -e "$WEIR_CHECKPOINT_DIR/go" ]; do sleep 0.05; done
test -e "$WEIR_CHECKPOINT_DIR/done"
"""


@pytest.mark.parametrize("seed", range(EFFORT))
def test_any_files_by_chance(pool: Pool, seed: int) -> None:
    chance = random.Random(seed)
    began_s = time.time()
    jobs = [f"h{at}" for at in range(8)]
    directories = hostile(pool, jobs)
    for turn in range(3):
        for job in jobs:
            own = Path(pod_files.own_directory(directories[job]))
            random_file(
                chance.choice([own / name for name in NAMES] + [own]) if own.is_dir() else own, chance
            )
            poke(pool, directories[job])
        neighbours_are_right(pool, began_s, f"n{turn}")
        if turn:
            pool.crash()
    stop_all(pool, jobs)
    assert {pool.ended(name) for name in jobs} == {WorkloadOutcome.STOPPED}
