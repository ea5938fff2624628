"""Limit of the sign-ins that begin or end, by address: each may ask the provider."""

from collections.abc import Callable
from ipaddress import ip_network
from time import monotonic

from weir.control.token_bucket import TokenBuckets, TokenRate
from weir.dashboard.trusted_proxies import plain_address

SIGN_INS = TokenRate(60, 0.5)
"""Sign-ins from one address."""
ADDRESSES_MAX = 4096
TOO_MANY = "Too many sign-ins from this address: try again."


class SignInLimiter:
    """Counts the sign-ins of each address."""

    def __init__(self, rate: TokenRate = SIGN_INS, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._buckets = TokenBuckets(rate, ADDRESSES_MAX)

    def take(self, address: str) -> float:
        """Count a request of an address; return 0, or the seconds until it may come again."""
        return self._buckets.take(network_of(address), self._clock())


def network_of(address: str) -> str:
    """Return an address, or the network of one of IPv6: a host there has as many addresses as it wants."""
    plain = plain_address(address)
    if plain is None:
        return address
    return str(plain if plain.version == 4 else ip_network((plain, 64), strict=False))
