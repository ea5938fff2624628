"""A fake pool, a fake host, a clock that stands, and no terminal but the one a test asks for."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.fake_host import FakeHost
from tests.unit.client.conftest import fake  # noqa: F401 - a fixture

from weir.cli.install import unit

NOW_S = 1_003_600.0


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """It is 1970-01-12 14:46:40 UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("time.time", lambda: NOW_S)
    yield NOW_S
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks are set to summer time on 2027-03-28 and back on 2026-10-25."""
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "WEIR_PROJECT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(tmp_path, systemd=252)
    monkeypatch.setattr(
        unit,
        "_started_s",
        lambda asked: asked.started_s.get(unit.UNIT),  # type: ignore[attr-defined]
    )
    return host
