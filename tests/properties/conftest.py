"""Properties hold for small parts of work: a few pods fill the cycle that a large cluster fills with thousands."""

from collections.abc import Iterator

import pytest

from weir.engine.preemption import preemption


@pytest.fixture(autouse=True, scope="package")
def small_cycles() -> Iterator[None]:
    """Let one or two preemptions be all that a cycle does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemption, "PODS_AT_ONCE_MAX", 100)
        yield
