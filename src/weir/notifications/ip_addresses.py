"""Network addresses as the settings of notifications and the URLs of webhooks write them."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def ip_address(host: str) -> Address | None:
    """Return the address that a host is; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
