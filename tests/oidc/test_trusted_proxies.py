"""A pool behind a reverse proxy: the limit of sign-ins counts browsers, and no header of theirs changes that."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from weir.dashboard.oidc.sign_in_limiter import SIGN_INS

from .page import START
from .pool import RemotePool, remote_pool
from .provider import Providers

BROWSER, OTHER = "192.0.2.7", "192.0.2.8"


@pytest.fixture(params=["127.0.0.1/32", "127.0.0.2/32"])
def pool(
    request: pytest.FixtureRequest, providers: Providers, tmp_path: Path
) -> Iterator[tuple[RemotePool, bool]]:
    """A pool, and True if requests of this process come from a trusted proxy."""
    with remote_pool(tmp_path, providers.start(), None, "--trusted-proxies", request.param) as found:
        yield found, request.param == "127.0.0.1/32"


def begins(client: httpx.Client, *forwarded: str) -> int:
    """Return the status of a sign-in that begins behind these addresses."""
    headers = [("X-Forwarded-For", each) for each in forwarded]
    return client.get(START, headers=headers).status_code


def test_browsers_have_limits_of_their_own_behind_a_trusted_proxy_alone(
    pool: tuple[RemotePool, bool],
) -> None:
    server, is_trusted = pool
    with server.asks() as client:
        for at in range(SIGN_INS.at_once):
            assert begins(client, f"198.51.100.{at}", BROWSER) == 303
        spoofed = [begins(client, f"203.0.113.{at}, {BROWSER}") for at in range(SIGN_INS.at_once)]
        assert 429 in spoofed  # some tokens come back meanwhile
        others = {begins(client, OTHER) for _ in range(SIGN_INS.at_once // 2)}
        assert others == {303} if is_trusted else 429 in others
