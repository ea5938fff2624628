"""A store for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.store import Store, event_history

from .fixtures import opened


@pytest.fixture(autouse=True)
def _waits_for_recorded_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let readers wait as long as a busy machine needs to store what was recorded before."""
    monkeypatch.setattr(event_history, "AWAITED_S_MOST", 120.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open store with two projects."""
    with opened(tmp_path) as found:
        yield found
