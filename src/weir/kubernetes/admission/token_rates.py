"""Rate limits of token reviews at the API server: by address, and in total.

Every pod of the cluster may send tokens of its own making. The rate of its address keeps it from using up
that of all, so that a new agent or a new Prometheus is let in while others flood the port. Tokens of an
address that are genuine cost it nothing. A token without an answer stays taken: an API server that fails
isn't asked more often than one that refuses.
"""

from dataclasses import dataclass

from weir.control.token_bucket import TokenBucket

ADDRESSES_MOST = 4096
"""Addresses that are remembered. A pod has one or two, and can't choose them."""


@dataclass(frozen=True, slots=True)
class TokenRate:
    """A burst of tokens, and then a rate."""

    at_once: int
    per_s: float


class TokenRates:
    """Buckets for reviews of unknown tokens."""

    def __init__(self, of_all: TokenRate, of_address: TokenRate, now_s: float) -> None:
        self._of_all, self._of_address = of_all, of_address
        self._all = TokenBucket(of_all.at_once, now_s)
        self._addresses: dict[str, TokenBucket] = {}  # in the order of their first tokens

    def take(self, address: str, now_s: float) -> bool:
        """Return True if a token of an address may be reviewed, and count the review."""
        bucket, rate = self._bucket(address, now_s), self._of_address
        if bucket.take(1.0, rate.per_s, rate.at_once, now_s):
            return False
        return not self._all.take(1.0, self._of_all.per_s, self._of_all.at_once, now_s)

    def vouched(self, address: str) -> None:
        """Give a token back to its address: the API server vouches for it."""
        bucket = self._addresses.get(address)
        if bucket is not None:
            bucket.give_back(1.0, self._of_address.at_once)

    def _bucket(self, address: str, now_s: float) -> TokenBucket:
        bucket = self._addresses.get(address)
        if bucket is None:
            if len(self._addresses) >= ADDRESSES_MOST:
                del self._addresses[next(iter(self._addresses))]
            bucket = self._addresses[address] = TokenBucket(self._of_address.at_once, now_s)
        return bucket
