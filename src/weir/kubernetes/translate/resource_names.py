"""The resources beside devices that requests may name: their number is bounded.

The engine keeps a row for each resource, by node and by queue, for as long as it runs. So a pod can't add a
resource that no node states; and of host ports, which no node states, the cluster takes a limited number.
"""

from collections.abc import Collection, Iterable

from weir.model.resources import PODS

HOST_PORTS_MAX = 1024
"""Different host ports that pods may ask for, each address of one counted, while Weir runs."""

MISSING_MAX = 4096
"""Resources that no node has, remembered from requests."""


class ResourceNames:
    """Names that requests may use. Names are only ever added, as rows are."""

    def __init__(self) -> None:
        self._stated = {PODS}
        self._missing: set[str] = set()  # requested resources that no node has stated so far
        self._ports: set[str] = set()

    def state(self, names: Iterable[str]) -> bool:
        """Add the resources that a node states; return True if a request named any of them before."""
        added = set(names) - self._stated
        self._stated |= added
        if len(self._missing) < MISSING_MAX:
            was_missing = not self._missing.isdisjoint(added)
            self._missing -= added
            return was_missing
        self._missing.clear()  # the set was full, so any new name may matter
        return bool(added)

    def leave_out(self, asked: dict[str, int], provided: Collection[str] = ()) -> list[str]:
        """Remove resources that no node states from a request; return corrections as sentences.

        `provided` are resources that device classes provide: claims are made for them.
        """
        unknown = sorted(asked.keys() - self._stated)
        if len(self._missing) < MISSING_MAX:
            self._missing.update(unknown)
        for name in unknown:
            del asked[name]
        return [
            f"a pod asks for {name}, which no node has: leave it out of its resources"
            for name in unknown
            if name not in provided
        ]

    def leave_out_ports(self, ports: dict[str, int]) -> list[str]:
        """Remove the host ports past the bound from a request; return corrections as sentences."""
        if len(self._ports | ports.keys()) <= HOST_PORTS_MAX:
            self._ports.update(ports)
            return []
        unknown = sorted(ports.keys() - self._ports)
        for name in unknown:
            del ports[name]
        most = f"pods may use {HOST_PORTS_MAX} different host ports in a cluster"
        return [f"a pod asks for {unknown[0]}, and {most}: use one that other pods use, or none"]
