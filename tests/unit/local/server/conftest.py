"""A standing pool for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .in_process_server import Standing, standing


@pytest.fixture
async def stands(tmp_path: Path) -> AsyncIterator[Standing]:
    async with standing(tmp_path / "home") as found:
        yield found
