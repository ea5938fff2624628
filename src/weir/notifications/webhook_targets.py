"""Targets of webhooks: the URLs that the administrator allows, and the network addresses that are refused.

A name is resolved for each request, every address is checked, and the connection goes to the checked
address. So a name can't change its address in between. Redirects aren't followed.
"""

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from weir.notifications.ip_addresses import Address, ip_address
from weir.service.blocking_calls import BlockingCalls

METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
        ),
    )
)
"""Addresses at which clouds serve the credentials of a machine, or of a pod."""
URL_LENGTH_MAX, HOST_LENGTH_MAX = 2000, 253
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PORTS = {"https": 443, "http": 80}


class TargetRefused(Exception):
    """A URL isn't allowed; the sentence names an allowed form."""


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A URL in parts. `names_address`: the administrator allowed this very IP address."""

    scheme: str
    host: str
    port: int
    path: str
    names_address: bool

    @property
    def shown(self) -> str:
        """Return the URL without the part that may be a secret."""
        return f"{self.scheme}://{self.netloc}/…" if len(self.path) > 1 else f"{self.scheme}://{self.netloc}/"

    @property
    def netloc(self) -> str:
        """Return host and port as they are in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def url_at(self, address: Address) -> str:
        """Return the URL with an address instead of the name."""
        host = f"[{address}]" if address.version == 6 else str(address)
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def checked_target(url: str, allowed: Sequence[str]) -> WebhookTarget:
    """Return the target of a URL that the administrator allows.

    Raises:
        TargetRefused: the text is no URL, or the URL isn't allowed.
    """
    if len(url) > URL_LENGTH_MAX:
        raise TargetRefused(f"the address is longer than {URL_LENGTH_MAX} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetRefused(
            "the address is no URL; write one such as https://hooks.slack.com/services/..."
        ) from None
    host = (parts.hostname or "").rstrip(".").lower()
    plain = (
        url.isascii()
        and url.isprintable()
        and " " not in url
        and parts.username is None
        and not parts.fragment
    )
    if parts.scheme not in _PORTS or not 0 < len(host) <= HOST_LENGTH_MAX or not plain:
        raise TargetRefused(
            "the address is no URL of a webhook; write one such as https://hooks.slack.com/services/..."
        )
    port = _PORTS[parts.scheme] if port is None else port
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    for entry in allowed:
        if _matches(entry, parts.scheme, host, port):
            return WebhookTarget(parts.scheme, host, port, path, ip_address(host) is not None)
    if not allowed:
        raise TargetRefused(
            "no webhooks are allowed; the administrator lists their hosts in the settings of notifications"
        )
    hosts = ", ".join(allowed[:5])
    raise TargetRefused(
        f"{parts.scheme}://{host[:80]}:{port} isn't allowed; the administrator allows {hosts}"
    )


def _matches(entry: str, scheme: str, host: str, port: int) -> bool:
    parts = urlsplit(entry if "://" in entry else f"https://{entry}")
    if scheme != parts.scheme or port != (parts.port or _PORTS[parts.scheme]):
        return False
    name = (parts.hostname or "").lower()
    return host.endswith(name[1:]) and len(host) >= len(name) if name.startswith("*.") else host == name


def refusal_of(address: Address, *, is_named: bool) -> str | None:
    """Return why no connection is made to an address; None if it is allowed."""
    inner = _inner(address)
    if inner in METADATA:
        return "it is the address of a cloud's metadata service"
    if is_named:
        return None
    kinds = (
        ("is_loopback", "this machine"),
        ("is_link_local", "a link-local address"),
        ("is_unspecified", "no address"),
        ("is_multicast", "a multicast address"),
        ("is_reserved", "a reserved address"),
    )
    return next((f"it is {words}" for kind, words in kinds if getattr(inner, kind)), None)


def _inner(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address; None without one."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


async def resolve(target: WebhookTarget, threads: BlockingCalls) -> list[Address]:
    """Return the addresses of a target, all of them checked.

    Raises:
        TargetRefused: the name has no address, or one that isn't connected to.
    """
    named = ip_address(target.host)
    if named is not None:
        addresses = [named]
    else:
        look = partial(socket.getaddrinfo, target.host, target.port, type=socket.SOCK_STREAM)
        try:
            infos = await threads.run(look)
        except (OSError, UnicodeError):  # UnicodeError: a label is empty or too long
            raise TargetRefused(f"{target.host} has no address") from None
        addresses = list(
            dict.fromkeys(ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in infos)
        )
    for address in addresses:
        why = refusal_of(address, is_named=target.names_address)
        if why is not None:
            raise TargetRefused(f"{target.host} is refused: {why}")
    return addresses
