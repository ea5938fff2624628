"""A fake pool, and no other that could be meant."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.client.fake import Fake, served


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Fake]:
    with served() as pool:
        monkeypatch.setenv("WEIR_URL", pool.url)
        monkeypatch.setenv("WEIR_TOKEN", "secret")
        monkeypatch.setenv("WEIR_HOME", str(tmp_path / "nowhere"))
        yield pool
