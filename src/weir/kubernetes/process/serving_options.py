"""Address of the port for webhooks, health and metrics, apart from the web server that options don't need."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 9443


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Address to listen at, and names to be reached by."""

    service: str  # its name in the cluster, and that of its webhook configurations
    namespace: str
    host: str | None = None  # None: every address
    port: int = DEFAULT_PORT
    client_authorities: Path | None = None  # callers present a certificate signed by one of these

    @property
    def secret(self) -> str:
        """Name of the Secret with its certificates."""
        return f"{self.service}-webhook"

    @property
    def names(self) -> list[str]:
        """Host names by which clients connect."""
        within = f"{self.service}.{self.namespace}"
        names = [f"{within}.svc", f"{within}.svc.cluster.local", within, self.service]
        return names + ([self.host] if self.host is not None and _is_loopback(self.host) else [])


def _is_loopback(host: str) -> bool:
    """Return True for an address that only this machine can reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
