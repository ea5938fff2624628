"""A fake pool, a clock that stands, and no terminal but the one a test asks for."""

import time
from collections.abc import Iterator

import pytest
from tests.unit.client.conftest import fake  # noqa: F401 - a fixture

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


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "WEIR_PROJECT"):
        monkeypatch.delenv(name, raising=False)
