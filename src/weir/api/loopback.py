"""Hosts that are this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine, and unreachable from others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
