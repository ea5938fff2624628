"""Limit of the sign-ins that begin or end, by address: each may ask the provider."""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_network
from time import monotonic

from weir.control.token_bucket import TokenBucket
from weir.dashboard.trusted_proxies import plain_address

SIGN_INS_AT_ONCE, SIGN_INS_PER_S = 60, 0.5
"""Sign-ins from one address: a burst, then a rate."""
ADDRESSES_MAX = 4096
TOO_MANY = "Too many sign-ins from this address: try again."


class SignInLimiter:
    """Counts the sign-ins of each address."""

    def __init__(
        self,
        burst: float = SIGN_INS_AT_ONCE,
        per_s: float = SIGN_INS_PER_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, address: str) -> float:
        """Count a request of an address; return 0, or the seconds until it may come again."""
        now_s, source = self._clock(), network_of(address)
        bucket = self._buckets.setdefault(source, TokenBucket(self._burst, now_s))
        self._buckets.move_to_end(source)
        while len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        return bucket.take(1.0, self._per_s, self._burst, now_s)


def network_of(address: str) -> str:
    """Return an address, or the network of one of IPv6: a host there has as many addresses as it wants."""
    found = plain_address(address)
    if found is None:
        return address
    return str(found if found.version == 4 else ip_network((found, 64), strict=False))
