"""A store for each test, and empty databases."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.postgres_server import private_postgres, programs

from weir.store.history import events
from weir.store.store import Store

from .fixtures import opened


@pytest.fixture(autouse=True)
def _waits_for_recorded_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let readers wait as long as a busy machine needs to store what was recorded before."""
    monkeypatch.setattr(events, "AWAITED_S_MAX", 120.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open store with two projects."""
    with opened(tmp_path) as opened_store:
        yield opened_store


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    if programs() is None:
        pytest.skip("there is no PostgreSQL on this machine: apt-get install postgresql")
    with private_postgres() as server:
        yield server.url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/history.db"
        return
    server = request.getfixturevalue("postgres")
    name = f"weir_{secrets.token_hex(4)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()
