"""Fixtures of the tests of the Kubernetes backend without an API server."""

import pytest

from .budget_site import Site


@pytest.fixture
def site() -> Site:
    made = Site()
    made.runs("a", "n1")
    made.runs("b", "n2")
    return made
