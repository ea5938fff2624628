"""Promises of the database: kill -9, a full disk, two servers, other versions."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from tests.unit.store.fixtures import NOW_S, end, opened, submitted
from tools import prefork

import weir.store.cluster.tables  # its tables join the metadata
import weir.store.migrations
from weir.store.database import schema
from weir.store.errors import NameTaken, StoreFailed
from weir.store.records import HistoryEvent, UsageSample, UsageSamples, WorkloadFilter
from weir.store.store import Store
from weir.store.tables import metadata

WRITES = """
import sys, threading
from pathlib import Path
from tests.unit.store.fixtures import opened, submitted, end, NOW_S
from weir.store.records import HistoryEvent
with opened(Path(sys.argv[1])) as store:
    def work(mine):
        for at in range(10_000):
            name = f"w{sys.argv[2]}-{mine}-{at}"
            kept = store.workloads.submit(submitted(name)).result()
            sys.stdout.write(f"submitted {name}\\n")
            store.events.record([HistoryEvent(NOW_S, "noted", "it runs", kept.launch.uid, name)])
            if at % 2:
                store.journal.keep([end(name)], {})
                sys.stdout.write(f"ended {name}\\n")
            sys.stdout.flush()
    for mine in range(4):
        threading.Thread(target=work, args=(mine,), daemon=True).start()
    threading.Event().wait()
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """Answered writes are there; an end has one event, and an event of an end its end."""
    submitted_, ended = set(), set()
    for turn in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITES, str(tmp_path), str(turn)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[4],
        )
        assert process.stdout is not None
        for _ in range(60 + 37 * turn):
            _tell(process.stdout.readline(), submitted_, ended)
        process.kill()
        rest, _ = process.communicate()
        for line in rest.splitlines(keepends=True):
            _tell(line, submitted_, ended)
    with opened(tmp_path) as store:
        live = {kept.workload.name for kept in store.journal.workloads()}
        over = {
            line.name
            for line in store.workloads.page(WorkloadFilter(live=False, ended=True), limit=1000).items
        }
        assert submitted_ <= live | over
        assert ended <= over
        assert not live & over
        ends = [one.workload for one in store.events.page(kinds=["ended"], limit=1000).items]
        assert sorted(over) == sorted(ends)
        page = store.events.page(limit=1)
        store.events.record([HistoryEvent(NOW_S, "noted", "later")])
        store.workloads.submit(submitted("next")).result()
        assert store.events.page(limit=1).items[0].id == page.items[0].id + 1
    raw = sqlite3.connect(tmp_path / "weir.db")
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()


def _tell(line: str, submitted_: set[str], ended: set[str]) -> None:
    if line.endswith("\n"):
        verb, name = line.split()
        (submitted_ if verb == "submitted" else ended).add(name)


@contextmanager
def full_disk(store: Store, home: Path) -> Iterator[None]:
    """Let the database grow by a few pages and no further."""
    pages = (home / "weir.db").stat().st_size // 4096 + 40
    engine = store._database.engine
    assert engine is not None

    def limit(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "begin", limit)
    try:
        yield
    finally:
        event.remove(engine, "begin", limit)
        pages = 1 << 30
        store._database.write(limit).result()


def test_full_disk_is_refused_clearly_and_corrupts_nothing(tmp_path: Path) -> None:
    """Earlier writes are there, later ones aren't, and with free space it goes on."""
    with opened(tmp_path) as store:
        with full_disk(store, tmp_path):
            done = 0

            def submit_all() -> None:
                nonlocal done
                while True:
                    store.workloads.submit(submitted(f"train-{done}"), {"filler": "x" * 2000}).result()
                    done += 1

            with pytest.raises(StoreFailed, match=r"disk .* is full. Free some space") as refused:
                submit_all()
            assert refused.value.is_full
            assert isinstance(refused.value, OSError)
            assert store.trouble == "The disk that holds the database is full: free some space."
            page = store.workloads.page(WorkloadFilter(), limit=1000)
            assert page.total == done > 0
            with ThreadPoolExecutor(8) as threads:
                asked = {"filler": "x" * 90_000}
                fails = [
                    threads.submit(store.workloads.submit(submitted(f"more-{index}"), asked).result)
                    for index in range(16)
                ]
                assert all(isinstance(future.exception(), StoreFailed) for future in fails)
            store.events.record([HistoryEvent(NOW_S, "noted", "x" * 4000)] * 100)
            assert store.workloads.page(WorkloadFilter()).total == done
        store.workloads.submit(submitted("after")).result()
        store.journal.keep([end("train-0")], {})
        assert store.events.page(kinds=["ended"]).total == 1
    raw = sqlite3.connect(tmp_path / "weir.db")
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()


LIMITED = """
import resource, sys
from pathlib import Path
from tests.unit.store.fixtures import opened, submitted
from weir.store.errors import StoreFailed
from weir.store.records import WorkloadFilter
with opened(Path(sys.argv[1])) as store:
    store.workloads.submit(submitted("first")).result()
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    done = 1
    try:
        for at in range(10_000):
            store.workloads.submit(submitted(f"train-{at}"), {"filler": "x" * 5000}).result()
            done += 1
    except StoreFailed as failed:
        print(failed)
    assert store.workloads.page(WorkloadFilter()).total == done
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.workloads.submit(submitted("after")).result()
    print(done + 1)
"""


def test_file_that_cant_be_written_is_refused_clearly_and_corrupts_nothing(tmp_path: Path) -> None:
    """The system says no in the midst of a write, as a full disk does."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[4],
    )
    sentence, count = done.stdout.splitlines()
    assert sentence.startswith(("The disk", "The database can't be used"))
    with opened(tmp_path) as store:
        assert store.workloads.page(WorkloadFilter()).total == int(count)


def test_one_bad_piece_of_work_disturbs_none_of_its_commit(store: Store) -> None:
    """They share a commit; what one breaks is done again for each by itself."""

    def fails(_: object) -> None:
        raise RuntimeError("broken")

    together = Event()
    store._database.write(lambda _: together.wait(120))
    futures = [store.workloads.submit(submitted(f"train-{index}")) for index in range(5)]
    broken = store._database.write(fails)
    futures += [store.workloads.submit(submitted(f"train-{index}")) for index in range(3, 8)]
    together.set()
    assert isinstance(broken.exception(), RuntimeError)
    outcomes = [future.exception() for future in futures]
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [NameTaken, NameTaken]
    assert store.workloads.page(WorkloadFilter()).total == 8


def test_work_that_was_given_up_isnt_done(store: Store) -> None:
    """A write that was cancelled in time isn't done."""
    cancelled = Event()
    store._database.write(lambda _: cancelled.wait(120))
    future = store.workloads.submit(submitted("train"))
    assert future.cancel()
    cancelled.set()
    store.workloads.submit(submitted("other")).result()
    assert store.workloads.newest("train") is None


def test_closed_store_refuses(tmp_path: Path) -> None:
    """Queued work is written first."""
    store = Store(None, tmp_path)
    store.events.record([HistoryEvent(NOW_S, "noted", "x")])
    store.samples.add(UsageSamples(NOW_S, NOW_S + 60, [UsageSample("p", "", "ann", "train", "n", 60.0)]))
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        store.workloads.suspend("train", "x").result()
    with pytest.raises(StoreFailed, match="closed"):
        store.queues()
    with opened(tmp_path) as again:
        assert again.events.page().total == 1
        assert again.samples.sampled_s() == NOW_S + 60


def test_one_server_has_the_database(tmp_path: Path) -> None:
    """A second server has to wait; nothing outlives the first."""
    opens = "import sys; from pathlib import Path; from weir.store.store import Store; Store(None, Path(sys.argv[1])).close()"
    command = [sys.executable, "-c", opens, str(tmp_path)]
    with opened(tmp_path):
        second = prefork.run(command)
        assert "Another server has the database" in second.stderr
    assert prefork.run(command).returncode == 0


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    """Environments are in them."""
    home = tmp_path / "home"
    with opened(home, migrated=False) as store:
        store.workloads.submit(submitted("train")).result()
        assert home.stat().st_mode & 0o777 == 0o700
        for file in home.iterdir():
            assert file.stat().st_mode & 0o077 == 0 or file.name == "weir.lock"


def test_migrations_make_the_tables_that_are_used(tmp_path: Path) -> None:
    """And the newest is the one the opener looks for."""
    with opened(tmp_path, migrated=False):
        pass
    engine = create_engine(f"sqlite:///{tmp_path}/weir.db")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()
    migrations = Path(weir.store.migrations.__file__).parent
    assert ScriptDirectory(str(migrations)).get_current_head() == schema.HEAD


ADDS_A_COLUMN = """
from alembic import op
from sqlalchemy import Column, Integer
revision = "0020"
down_revision = "0019"
def upgrade():
    op.add_column("workloads", Column("tries", Integer, nullable=False, server_default="7"))
"""


def test_a_database_of_the_version_before_gets_the_missing_migrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, later = tmp_path / "home", tmp_path / "migrations"
    with opened(home) as store:
        store.workloads.submit(submitted("train")).result()
    shutil.copytree(schema.MIGRATIONS, later)
    (later / "versions" / "v0020_tries.py").write_text(ADDS_A_COLUMN)
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    monkeypatch.setattr(schema, "HEAD", "0020")
    for _ in range(2):
        with opened(home, migrated=False) as store:
            assert store.workloads.newest("train") is not None
    raw = sqlite3.connect(home / "weir.db")
    assert raw.execute("SELECT name, tries FROM workloads").fetchall() == [("train", 7)]
    assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [("0020",)]
    raw.close()


def test_database_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """And so is what isn't one."""
    with opened(tmp_path):
        pass
    for version, refusal in (("9999", "a newer version"), ("0018", "a version before the first release")):
        raw = sqlite3.connect(tmp_path / "weir.db")
        raw.execute("UPDATE alembic_version SET version_num = ?", [version])
        raw.commit()
        raw.close()
        with pytest.raises(StoreFailed, match=refusal):
            Store(None, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "weir.db").write_bytes(b"This is a letter." * 1000)
    with pytest.raises(StoreFailed, match="not a database"):
        Store(None, other)


def test_tables_can_be_made_elsewhere() -> None:
    """Nothing in them is one database's own."""
    dialect = postgresql.dialect()
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            made = str(CreateIndex(index).compile(dialect=dialect))
            partial = (
                *("workloads_live_name", "workloads_array", "events_one_end", "events_counted"),
                "workloads_namespace",
                *("notifications_queued", "notification_messages_pending"),
            )
            assert ("WHERE" in made) == (index.name in partial)
