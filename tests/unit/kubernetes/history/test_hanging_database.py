"""A database server that hangs: the writer says so, questions end, and all goes on where it stopped."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.postgres_server import Postgres, private_postgres, programs
from tests.unit.kubernetes.history.replica import Replica, kinds, stamp, until

from weir.api.answers import EventFilter
from weir.kubernetes.history import stored_answers
from weir.kubernetes.history import writer as writer_module
from weir.kubernetes.history.options import HistoryOptions
from weir.kubernetes.history.retention import retention_of
from weir.kubernetes.history.stored_answers import StoredAnswers
from weir.store.cluster.reader import ClusterHistoryReader
from weir.store.database import database

CLUSTER = "c1"


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    if programs() is None:
        pytest.skip("there is no PostgreSQL on this machine: apt-get install postgresql")
    with private_postgres() as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        *((database, name, 0.2) for name in ("GUARD_S", "GUARD_S_MAX")),
        *((writer_module, name, 0.05) for name in ("EVERY_S", "PAUSE_S", "PAUSE_S_MAX")),
        (writer_module, "LAST_WRITE_S", 1.0),
        (stored_answers, "ANSWER_S", 1.0),
        (stored_answers, "PAUSE_S", 0.0),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


@pytest.mark.usefixtures("quick")
def test_a_server_that_hangs_is_trouble_until_it_answers_again(
    postgres: Postgres, loop: asyncio.AbstractEventLoop
) -> None:
    def is_answered() -> bool:
        return loop.run_until_complete(answers.events(EventFilter(), 0, 9)) is not None

    replica = Replica(lambda: postgres.url)
    replica.set("a", "Running")
    writer = replica.lead()
    until(lambda: bool(writer.written_s))
    answers = StoredAnswers(HistoryOptions(lambda: postgres.url), lambda: CLUSTER)
    until(is_answered)
    postgres.pause()
    try:
        replica.tell("meanwhile", "a")
        until(lambda: "doesn't answer" in writer.trouble)
        for _ in range(2 * stored_answers.THREADS):  # more than it has threads
            assert not is_answered()
        assert answers.note is not None
        writer.close()  # the leadership ends, and another one of this process begins
        next_writer = replica.lead()
        replica.set("a", "Succeeded", endedAt=stamp())
    finally:
        postgres.resume()
    until(lambda: bool(next_writer.written_s) and not next_writer.trouble)
    until(is_answered)
    reader = ClusterHistoryReader(postgres.url, CLUSTER, retention_of(86400.0))
    assert kinds(reader) == ["meanwhile"]
    until_s = time.time() + 60
    (row,) = reader.usage(until_s - 3600, until_s, "project", until_s).rows
    assert (row.workloads, row.ended) == (1, 1)
    reader.close()
    answers.close()
    next_writer.close()


ENDING = """
import asyncio, threading
from weir.api.answers import EventFilter
from weir.kubernetes.history import stored_answers
from weir.kubernetes.history.options import HistoryOptions

stored_answers.ANSWER_S = 0.1

async def ask():
    answers = stored_answers.StoredAnswers(HistoryOptions(threading.Event().wait), lambda: "c1")
    assert await answers.events(EventFilter(), 0, 9) is None
    answers.close()

asyncio.run(ask())
"""


def test_question_that_hangs_keeps_no_process_from_ending() -> None:
    subprocess.run([sys.executable, "-c", ENDING], check=True, timeout=120)
