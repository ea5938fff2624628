"""Constraints that a pod's resource claims put on its placement."""

from dataclasses import dataclass

from weir.model.resources import CLAIMS_PREFIX
from weir.model.workloads import WHOLE_MILLI, NodeAffinityRule, Request


@dataclass(frozen=True, slots=True)
class ClaimConstraints:
    """Nodes that reach the allocated devices, needs of the claims on a node, and GPUs they count as."""

    rules: tuple[NodeAffinityRule, ...] = ()
    waits: str | None = None
    needs: tuple[tuple[str, int], ...] = ()  # claimed devices as resources
    devices: int = 0
    share_milli: int = WHOLE_MILLI
    weight_milli: int = WHOLE_MILLI
    is_guess: bool = False  # True: devices of allocated claims are unknown at the moment
    is_share: bool = False  # its fraction is a part of the devices that it claims
    provided: tuple[str, ...] = ()  # extended resources that device classes provide
    counted: tuple[str, ...] = ()  # the part of them that `devices` counts


NO_CLAIMS = ClaimConstraints()
CLAIMED_DEVICES = "resource.k8s.io/claims"
"""Kind of devices on nodes whose GPUs are allocated by claims, instead of a resource's name."""
UNREAD_NEED = f"{CLAIMS_PREFIX}that is allocated already #", 1
"""Need of a running pod whose claims, or their class, are deleted: its GPUs are still in use."""


def claim_needs(request: Request) -> list[tuple[str, int]]:
    """Return the copies of claims that a request needs, as resources."""
    return [(name, amount) for name, amount in request.further if name.startswith(CLAIMS_PREFIX)]
