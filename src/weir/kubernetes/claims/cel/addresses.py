"""Addresses and prefixes of networks: `ip`, `cidr` and their methods."""

from ipaddress import AddressValueError, IPv4Address, IPv6Address

from weir.kubernetes.claims.cel.overloads import Overload, Overloads, succeeds
from weir.kubernetes.claims.cel.values import CelError, Cidr

Address = IPv4Address | IPv6Address
_TEXT_MAX = 64
_STEPS = 10
"""Steps for reading or writing an address."""


def ip_of(text: str) -> Address:
    """Return an address; IPv4 within IPv6, zones and leading zeros are refused, as by Kubernetes.

    Raises:
        CelError: the text is no such address.
    """
    address = _address(text)
    if isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address.scope_id is not None):
        raise CelError(f"{text!r} is an IPv4 address within IPv6, or has a zone")
    return address


def any_ipv6_of(text: str) -> IPv6Address:
    """Return an IPv6 address, which may have a zone or contain an IPv4 address.

    Raises:
        CelError: the text is none.
    """
    address = _address(text)
    if isinstance(address, IPv4Address):
        raise CelError(f"{text!r} is no IPv6 address")
    return address


def _address(text: str) -> Address:
    try:
        if ":" in text and len(text.partition("%")[0]) <= _TEXT_MAX:
            return IPv6Address(text)
        return IPv4Address(text if len(text) <= _TEXT_MAX else "")
    except AddressValueError:
        raise CelError(f"{text[:_TEXT_MAX]!r} is no IP address") from None


def cidr_of(text: str) -> Cidr:
    """Return an address with the length of a prefix.

    Raises:
        CelError: the text is none.
    """
    written, _, length = text.rpartition("/")
    address = ip_of(written)
    is_number = length.isascii() and length.isdecimal() and len(length) <= 3
    if not is_number or (len(length) > 1 and length[0] == "0") or int(length) > address.max_prefixlen:
        raise CelError(f"{text!r} is no CIDR")
    return Cidr(address, int(length))


def ip_text(address: Address) -> str:
    """Return the canonical text of an address."""
    return str(address)


def cidr_text(cidr: Cidr) -> str:
    """Return the text of a prefix."""
    return f"{ip_text(cidr.address)}/{cidr.length}"


def _network(cidr: Cidr) -> int:
    return int(cidr.address) >> (cidr.address.max_prefixlen - cidr.length)


def _contains_ip(cidr: Cidr, address: Address) -> bool:
    return _contains_cidr(cidr, Cidr(address, address.max_prefixlen))


def _contains_cidr(cidr: Cidr, other: Cidr) -> bool:
    if cidr.address.version != other.address.version or cidr.length > other.length:
        return False
    return _network(Cidr(other.address, cidr.length)) == _network(cidr)


def _masked(cidr: Cidr) -> Cidr:
    network = _network(cidr) << (cidr.address.max_prefixlen - cidr.length)
    return Cidr(type(cidr.address)(network), cidr.length)


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return int(address) >> 8 == 0xE00000  # 224.0.0.0/24
    return int(address) >> 112 & 0xFF0F == 0xFF02  # its third hexadecimal digit holds flags


def _is_global_unicast(address: Address) -> bool:
    is_broadcast = isinstance(address, IPv4Address) and int(address) == 0xFFFFFFFF
    return not (
        is_broadcast
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


FUNCTIONS: Overloads = {
    "ip": (Overload((str,), ip_of, steps=_STEPS),),
    "isIP": (Overload((str,), succeeds(ip_of), steps=_STEPS),),
    "ip.isCanonical": (Overload((str,), lambda text: ip_text(ip_of(text)) == text, steps=2 * _STEPS),),
    "cidr": (Overload((str,), cidr_of, steps=_STEPS),),
    "isCIDR": (Overload((str,), succeeds(cidr_of), steps=_STEPS),),
    "string": (Overload((Address,), ip_text, steps=_STEPS), Overload((Cidr,), cidr_text, steps=_STEPS)),
}
METHODS: Overloads = {
    "family": (Overload((Address,), lambda address: address.version),),
    "isUnspecified": (Overload((Address,), lambda address: address.is_unspecified),),
    "isLoopback": (Overload((Address,), lambda address: address.is_loopback),),
    "isLinkLocalMulticast": (Overload((Address,), _is_link_local_multicast),),
    "isLinkLocalUnicast": (Overload((Address,), lambda address: address.is_link_local),),
    "isGlobalUnicast": (Overload((Address,), _is_global_unicast, steps=_STEPS),),
    "containsIP": (
        Overload((Cidr, Address), _contains_ip),
        Overload((Cidr, str), lambda cidr, text: _contains_ip(cidr, ip_of(text)), steps=_STEPS),
    ),
    "containsCIDR": (
        Overload((Cidr, Cidr), _contains_cidr),
        Overload((Cidr, str), lambda cidr, text: _contains_cidr(cidr, cidr_of(text)), steps=_STEPS),
    ),
    "ip": (Overload((Cidr,), lambda cidr: cidr.address),),
    "masked": (Overload((Cidr,), _masked),),
    "prefixLength": (Overload((Cidr,), lambda cidr: cidr.length),),
}
