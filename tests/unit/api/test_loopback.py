"""Hosts that are this machine."""

import pytest

from weir.api.loopback import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1"])
def test_hosts_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "[::1]"])
def test_hosts_that_others_reach(host: str) -> None:
    assert not is_loopback(host)
