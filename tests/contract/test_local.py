"""The control loop with real processes: lives, gangs, preemption, and whatever is killed."""

import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.properties.budget import EFFORT
from tests.unit.local.harness import kill, python, until
from tools import prefork

from weir.local import backend
from weir.local.processes import node_client
from weir.local.records import pod_files
from weir.local.starts import spec
from weir.state.events import PodKey, WorkloadOutcome

from .pool import Pool, Written, slow_or_fast

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    pool = Pool(tmp_path / "home")
    try:
        yield pool
    finally:
        pool.close()


def lines(path: str) -> list[str]:
    return Path(path).read_text().split() if Path(path).exists() else []


def test_it_starts_and_ends(pool: Pool) -> None:
    pool.submit("job", "true")
    pool.step_until(lambda: pool.ended("job"))
    assert pool.ended("job") is WorkloadOutcome.SUCCEEDED


def test_it_fails_and_is_tried_again(pool: Pool) -> None:
    script = 'echo run >> "$WEIR_CHECKPOINT_DIR/runs"; test $(wc -l < "$WEIR_CHECKPOINT_DIR/runs") = 3'
    saved = pool.submit("job", "sh", "-c", script)
    pool.step_until(lambda: pool.ended("job"))
    assert pool.ended("job") is WorkloadOutcome.SUCCEEDED
    assert lines(f"{saved}/runs") == ["run"] * 3


def test_a_gang_whose_third_process_crashes_restarts_as_a_whole(pool: Pool) -> None:
    script = """
        cd "$WEIR_CHECKPOINT_DIR"
        trap 'echo $RANK >> stopped; exit 0' TERM
        echo $RANK.$MASTER_PORT >> run$WEIR_RESTARTS
        while [ $(wc -l < run$WEIR_RESTARTS) -lt 4 ]; do sleep 0.01; done
        if [ $WEIR_RESTARTS = 0 ]; then
            if [ $RANK = 2 ]; then kill -KILL $$; fi
            while :; do sleep 0.01; done
        fi
    """
    saved = pool.submit("gang", "sh", "-c", script, pods=4)
    pool.step_until(lambda: pool.ended("gang"))
    assert pool.ended("gang") is WorkloadOutcome.SUCCEEDED
    assert sorted(lines(f"{saved}/stopped")) == ["0", "1", "3"]
    for run in ("run0", "run1"):
        ranks, ports = zip(*(line.split(".") for line in lines(f"{saved}/{run}")), strict=True)
        assert sorted(ranks) == ["0", "1", "2", "3"]
        assert len(set(ports)) == 1
    assert not Path(saved, "run2").exists()


TRAINS = python(
    "import os, signal, sys, time",
    "place = os.environ['WEIR_CHECKPOINT_DIR'] + '/step'",
    "step = int(open(place).read()) if os.path.exists(place) else 0",
    "def save(*_):",
    "    open(place, 'w').write(str(step))",
    "    sys.exit(0)",
    "signal.signal(signal.SIGTERM, save)",
    "begun, step = step, step + 1",
    "print('from', begun, flush=True)",
    "while not os.path.exists(os.environ['WEIR_CHECKPOINT_DIR'] + '/finish'):",
    "    step += 1",
    "    time.sleep(0.001)",
)


def test_a_lender_gives_way_at_once_and_goes_on_where_it_stopped(pool: Pool) -> None:
    names = ["train0", "train1"]
    saved = [pool.submit(name, *TRAINS, devices=2) for name in names]
    pool.step_until(lambda: len(pool.backend.pods()) == 2)
    logs = [Path(pod_files.own_directory(run.directory)) / "log" for run in pool.backend.pods()]
    until(lambda: all(log.exists() and log.read_text() for log in logs))
    script = 'echo run > "$WEIR_CHECKPOINT_DIR/runs"; sleep 0.1'
    owner = pool.submit("owner", "sh", "-c", script, project="other", devices=2)
    pool.step_until(lambda: lines(f"{owner}/runs"))
    (victim,) = [at for at in range(2) if lines(f"{saved[at]}/step")]
    step = int(lines(f"{saved[victim]}/step")[0])
    assert step > 0
    for place in saved:
        (Path(place) / "finish").touch()
    pool.step_until(lambda: all(map(pool.ended, ["owner", *names])))
    assert {pool.ended(name) for name in names} == {WorkloadOutcome.SUCCEEDED}
    resumed = max((pool.home / "jobs" / str(victim + 1)).iterdir())
    assert (resumed / "log").read_text() == f"from {step}\n"
    other = list((pool.home / "pods" / str(2 - victim)).iterdir())
    assert len(other) == 1  # it was never stopped


def test_a_killed_supervisor_s_job_is_started_once_more(pool: Pool) -> None:
    script = 'echo run >> "$WEIR_CHECKPOINT_DIR/runs"; while [ ! -e "$WEIR_CHECKPOINT_DIR/finish" ]; do sleep 0.01; done'
    saved = pool.submit("job", "sh", "-c", script)
    pool.step_until(lambda: len(lines(f"{saved}/runs")) == 1)
    born = pod_files.signed(pool.backend.pods()[0].directory)
    assert born is not None
    kill(born.pid)
    pool.step_until(lambda: len(lines(f"{saved}/runs")) == 2)
    Path(saved, "finish").touch()
    pool.step_until(lambda: pool.ended("job"))
    assert pool.ended("job") is WorkloadOutcome.SUCCEEDED
    assert lines(f"{saved}/runs") == ["run"] * 2


ALONE = """
import fcntl, os, sys, time
place = os.environ["WEIR_CHECKPOINT_DIR"]
lock = os.open(place + "/alone", os.O_CREAT | os.O_RDWR)
def say(what):
    line = os.open(place + "/lines", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(line, what + b"\\n")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    say(b"twice")
say(b"begin")
time.sleep(float(sys.argv[1]))
say(b"end")
"""
"""A job that notices if it runs twice at a time."""


def alone(seed: int) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", ALONE, str(slow_or_fast(seed)))


class Killed(BaseException):
    """The server dies here."""


@pytest.mark.parametrize("seed", range(3))
def test_whenever_the_server_dies_every_job_ends_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies before or after any of the things it does to the world."""
    chance = random.Random(seed)
    left = [0]

    def deadly(function):
        def or_dies(*args: object, **how: object) -> object:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **how)  # a thread that dies alone isn't a server that dies
            left[0] -= 1
            if left[0] == 0 and chance.random() < 0.5:
                raise Killed
            done = function(*args, **how)
            if left[0] == 0:
                raise Killed
            return done

        return or_dies

    pool = Pool(tmp_path / "home")
    monkeypatch.setattr(spec, "make_directory", deadly(spec.make_directory))
    monkeypatch.setattr(backend.pod_files, "write", deadly(backend.pod_files.write))
    monkeypatch.setattr(pool.journal, "keep", deadly(pool.journal.keep))
    monkeypatch.setattr(node_client.NodeClient, "start", deadly(node_client.NodeClient.start))
    try:
        saved = {f"job{at}": pool.submit(f"job{at}", *alone(at)) for at in range(16 * EFFORT)}
        deaths = 0
        while deaths < 16 * EFFORT and pool.journal.kept:
            left[0] = chance.randrange(1, 12)
            try:
                pool.step_until(lambda: not pool.journal.kept)
            except Killed:
                deaths += 1
                left[0] = 0
                pool.crash()
        left[0] = 0
        pool.step_until(lambda: not pool.journal.kept, lambda: pool.journal.kept)
        assert deaths
    finally:
        pool.close()
    for name, place in saved.items():
        assert pool.ended(name) is WorkloadOutcome.SUCCEEDED
        assert "twice" not in lines(f"{place}/lines")
        assert lines(f"{place}/lines").count("end") == 1, f"{name}: what is done was done again"


def test_kill_9_of_the_server_and_of_supervisors_loses_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    journal = Written(home / "journal")
    pool = Pool(home, journal)
    saved = {f"job{at}": pool.submit(f"job{at}", *alone(at)) for at in range(24 * EFFORT)}
    journal.save()
    pool.close()
    chance = random.Random(1)
    for deaths in range(8):
        server = prefork.start([sys.executable, "-m", "tests.contract.pool", str(home)], cwd=ROOT)
        if deaths == 7:
            assert server.wait(120) == 0
            break
        until(lambda server=server: server.poll() is not None or not _is_free(home))
        time.sleep(chance.random() * 0.3)
        some = [path.parent for path in (home / "pods").glob("*/*/lock")]
        for directory in chance.sample(some, min(2, len(some))):
            born = pod_files.signed(str(directory))
            if born is not None and born.lives():
                kill(born.pid)
        server.kill()
        server.wait()
    after = Written(home / "journal")
    assert not after.kept
    ends = sorted((end.workload, end.how) for end in after.ends)
    assert ends == sorted((name, WorkloadOutcome.SUCCEEDED) for name in saved)
    for place in saved.values():
        assert "twice" not in lines(f"{place}/lines")
        assert "end" in lines(f"{place}/lines")


def _is_free(home: Path) -> bool:
    import fcntl

    fd = os.open(home / "pool.lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(fd)


def test_pods_are_named_as_control_names_them(pool: Pool) -> None:
    pool.submit("job", "sleep", "3600", pods=2)
    pool.step_until(lambda: len(pool.backend.pods()) == 2)
    assert sorted(run.place.pod for run in pool.backend.pods()) == [
        PodKey("job", 0, 0),
        PodKey("job", 0, 1),
    ]
