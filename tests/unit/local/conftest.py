"""A pool for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "home")
    try:
        yield rig
    finally:
        rig.close()
