"""A process with OpenID providers for all tests, and one of them for each test."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from tools import web

from .provider import Provider, Providers

if find_spec("joserfc") is None:  # test_remote_access.py fails then
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    web.install()  # `make test` has done it
    found = Providers(tmp_path_factory.mktemp("oidc"))
    yield found
    found.end()


@pytest.fixture
def provider(providers: Providers) -> Provider:
    return providers.start()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for the answers of a provider: it may share few processors with many tests."""
    monkeypatch.setattr("weir.dashboard.oidc.provider.ANSWER_S_MAX", 60.0)
    monkeypatch.setattr("weir.dashboard.oidc.provider.CONNECT_S_MAX", 60.0)
