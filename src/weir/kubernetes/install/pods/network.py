"""The network policy of an installation: the sources that reach Weir's port, and the ports that Weir calls.

No selector of Kubernetes means "the API server". It calls from addresses of the control plane, which only an
administrator knows. Without them the port stays open, and reviews need the key that is in their path.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

API_SERVER_PORTS = (443, 6443, 16443)
"""Ports that API servers listen on, before and after a service's address is replaced."""
NAME_SERVER_PORTS = (53, 5353)
"""Ports of name servers, before and after a service's address is replaced."""
PORT_MAX = 65535
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


def source(text: str) -> str:
    """Return a source of traffic: a range of addresses as a CIDR, or the name of a namespace.

    Raises:
        ValueError: the text is neither.
    """
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        if _NAMESPACE.fullmatch(text):
            return text
    raise ValueError(
        f"{text!r} is neither a range of addresses nor a namespace: write one such as 10.0.0.0/28 or "
        "monitoring"
    )


def network_policy(pods: Mapping[str, str], port: int, sources: Sequence[str]) -> dict[str, Any]:
    """Return the spec: reviews, probes and metrics come in on one port; only API servers are called."""
    incoming: dict[str, Any] = {"ports": tcp_ports([port])}
    if sources:
        incoming["from"] = [_peer(origin) for origin in sources]
    return {
        "podSelector": {"matchLabels": dict(pods)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [incoming],
        "egress": [{"ports": tcp_ports(API_SERVER_PORTS)}],
    }


def destination(text: str) -> str:
    """Return a destination of traffic: a source and a port, such as monitoring:9090.

    Raises:
        ValueError: the text is no destination.
    """
    where, _, port = text.rpartition(":")
    if port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX and len(port) <= len(str(PORT_MAX)):
        try:
            return f"{source(where)}:{int(port)}"
        except ValueError:
            pass
    raise ValueError(
        f"{text!r} is no destination: write a namespace or a range of addresses, and a port, such as "
        "monitoring:9090 or 10.0.0.0/28:5432"
    )


def calls_policy(pods: Mapping[str, str], destinations: Sequence[str]) -> dict[str, Any]:
    """Return the spec of a policy that lets pods call these destinations, and name servers.

    Policies add up, so this one leaves all others as they are.
    """
    return {
        "podSelector": {"matchLabels": dict(pods)},
        "policyTypes": ["Egress"],
        "egress": [*(_call(target) for target in destinations), {"ports": name_ports()}],
    }


def _call(text: str) -> dict[str, Any]:
    where, _, port = text.rpartition(":")
    return {"ports": tcp_ports([int(port)]), "to": [_peer(where)]}


def name_ports() -> list[dict[str, Any]]:
    """Return the ports by which pods ask for addresses."""
    return [{"protocol": protocol, "port": port} for port in NAME_SERVER_PORTS for protocol in ("UDP", "TCP")]


def _peer(text: str) -> dict[str, Any]:
    if "/" in text:
        return {"ipBlock": {"cidr": text}}
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": text}}}


def tcp_ports(numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return ports of a network policy."""
    return [{"protocol": "TCP", "port": number} for number in numbers]
