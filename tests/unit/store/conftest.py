"""A store for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.store import Store

from .fixtures import opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open store with two projects."""
    with opened(tmp_path) as found:
        yield found
