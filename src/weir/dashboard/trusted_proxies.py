"""Addresses of browsers behind reverse proxies, as X-Forwarded-For names them.

Anyone can send that header. So it counts only in a request of a trusted proxy. It is read from its end, where
each proxy adds the address it was called from. The first address that is no trusted proxy is the browser's,
or of a proxy that could have made up the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import islice

HEADER = "X-Forwarded-For"
HOPS_MAX = 16
_LENGTH_MAX = 64  # longest address, with brackets and port
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """Ranges of the addresses of proxies that are trusted; none by default."""

    ranges: tuple[IPv4Network | IPv6Network, ...] = ()

    def client_of(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return the address of the client of a request.

        Args:
            peer: address of the other end of the connection.
            forwarded: values of each X-Forwarded-For, in their order.
        """
        client = plain_address(peer)
        if client is None:
            return peer
        for text in islice(_from_the_end(forwarded), HOPS_MAX):
            if not self._are_trusted(client):
                break
            before = _forwarded_address(text)
            if before is None:
                break
            client = before
        return str(client)

    def _are_trusted(self, address: Address) -> bool:
        return any(address in network for network in self.ranges)


def read_trusted_proxies(option: str, texts: Iterable[str]) -> TrustedProxies:
    """Return the proxies of an option.

    Raises:
        ValueError: a text is no range of addresses; the sentence names the option.
    """
    return TrustedProxies(tuple(_range(option, text) for text in texts))


def _range(option: str, text: str) -> IPv4Network | IPv6Network:
    example = "write one such as 10.0.0.0/28 or 10.0.0.5/32"
    try:
        network = ip_network(text)
    except ValueError:
        raise ValueError(f"{option}: {text[:100]!r} is no range of addresses: {example}") from None
    if not network.prefixlen:
        raise ValueError(f"{option}: {text!r} would trust the header of everyone: {example}")
    return network


def plain_address(text: str) -> Address | None:
    """Return an address, as IPv4 if IPv6 maps it; None for other texts."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _forwarded_address(text: str) -> Address | None:
    """Return the address of one value; some proxies write the port, too; None if it can't be read."""
    text = text.strip()
    if len(text) > _LENGTH_MAX:
        return None
    if text.startswith("["):
        host, closed, _ = text[1:].partition("]")
        return plain_address(host) if closed else None
    return plain_address(text.partition(":")[0] if text.count(":") == 1 else text)


def _from_the_end(values: Sequence[str]) -> Iterable[str]:
    for value in reversed(values):
        yield from reversed(value.split(","))
