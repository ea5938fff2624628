"""The store on a real PostgreSQL: a server of its own, or that of $WEIR_TEST_POSTGRES, whose user may create databases."""

import json
import os
import secrets
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.postgres_server import private_postgres, programs
from tests.unit.store.fixtures import NOW_S, end, opened, submitted
from tests.unit.store.week import record_week

from weir.model.queues import Queue
from weir.store.database.backup import backup
from weir.store.errors import StoreFailed
from weir.store.projects.tokens import token_hash
from weir.store.store import Store


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server."""
    named = os.environ.get("WEIR_TEST_POSTGRES", "")
    if named:
        yield named
        return
    if programs() is None:
        pytest.skip("there is no PostgreSQL on this machine: apt-get install postgresql")
    with private_postgres() as started:
        yield started.url


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """An empty database."""
    name = f"weir_{secrets.token_hex(4)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def test_everything_is_kept_and_found_again(url: str, tmp_path: Path) -> None:
    store = Store(url, tmp_path)
    store.set_queue(Queue("vision", None))
    uid = store.workloads.submit(submitted("train")).result().launch.uid
    store.journal.keep([end("train")], {})
    token, answer = store.tokens.make("mia", "member", ["vision"])
    store.close()
    store = Store(url, tmp_path)
    try:
        recorded = store.workloads.newest("train")
        assert recorded is not None
        assert (recorded.row.uid, recorded.row.status) == (uid, "succeeded")
        assert store.tokens.with_hash(token_hash(answer)) == token
    finally:
        store.close()


def test_history_equals_that_of_sqlite(url: str, tmp_path: Path) -> None:
    store = Store(url, tmp_path / "postgres")
    with opened(tmp_path / "sqlite") as sqlite:
        for queue in sqlite.queues():
            store.set_queue(queue)
        for database in (store, sqlite):
            record_week(database, NOW_S)
        for days, by in product((0.3, 7, 365), ("project", "user", "type", "node")):
            period = (NOW_S - days * 86400, NOW_S, by)
            one, other = (
                json.loads(
                    database.reports.report(*period, now_s=NOW_S).model_dump_json(),
                    parse_float=lambda text: round(float(text), 3),
                )
                for database in (store, sqlite)
            )
            assert one == other
    store.close()


def test_second_server_on_one_database_is_refused(url: str, tmp_path: Path) -> None:
    first = Store(url, tmp_path / "one")
    try:
        for home in ("one", "two"):
            with pytest.raises(StoreFailed, match="Another server has"):
                Store(url, tmp_path / home)
    finally:
        first.close()
    with pytest.raises(StoreFailed, match="is not its home"):
        Store(url, tmp_path / "two")
    Store(url, tmp_path / "one").close()


def end_sessions(url: str) -> None:
    engine = create_engine(make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        ended = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")
        connection.execute(ended, {"name": make_url(url).database})
    engine.dispose()


def test_lost_session_is_taken_up_again_only_if_no_other_server_came(url: str, tmp_path: Path) -> None:
    first = Store(url, tmp_path)
    first.set_queue(Queue("vision", None))
    end_sessions(url)
    with pytest.raises(StoreFailed):
        first.workloads.submit(submitted("lost")).result()
    first.workloads.submit(submitted("kept")).result()
    engine = create_engine(url)
    with engine.begin() as connection:  # what another server's opening does
        connection.execute(text("UPDATE pool SET opened = opened + 1"))
    engine.dispose()
    end_sessions(url)
    for _ in range(3):
        with pytest.raises(StoreFailed):
            first.workloads.submit(submitted("never")).result()
    until = time.monotonic() + 120
    while first.trouble is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "meanwhile" in first.trouble
    first.close()


def test_backup_names_the_tools_of_postgresql(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="pg_dump"):
        backup(tmp_path, url, tmp_path / "file")


def test_begun_again_numbers_go_on_above_the_home(url: str, tmp_path: Path) -> None:
    (tmp_path / "pods" / "41").mkdir(parents=True)
    with pytest.raises(StoreFailed, match="--begin-again"):
        Store(url, tmp_path)
    store = Store(url, tmp_path, begin_again=True)
    store.set_queue(Queue("vision", None))
    assert store.workloads.submit(submitted("train")).result().launch.uid == 42
    store.close()
