"""Rate limits of token reviews at the API server: by address, and in total.

Every pod of the cluster may send tokens of its own making. The rate of its address keeps it from using up
that of all. So a new agent or a new Prometheus is let in while others flood the port. Tokens of an address
that are genuine cost it nothing. A token without an answer stays taken: an API server that fails isn't asked
more often than one that refuses.
"""

from weir.control.token_bucket import TokenBucket, TokenBuckets, TokenRate

ADDRESSES_MAX = 4096
"""Addresses that are remembered. A pod has one or two, and can't choose them."""


class TokenRates:
    """Buckets for reviews of unknown tokens."""

    def __init__(self, of_all: TokenRate, of_address: TokenRate, now_s: float) -> None:
        self._all = TokenBucket(of_all, now_s)
        self._addresses = TokenBuckets(of_address, ADDRESSES_MAX)

    def take(self, address: str, now_s: float) -> bool:
        """Return True if a token of an address may be reviewed, and count the review."""
        return not self._addresses.take(address, now_s) and not self._all.take(now_s)

    def vouched(self, address: str) -> None:
        """Give a token back to its address: the API server vouches for it."""
        self._addresses.give_back(address)
