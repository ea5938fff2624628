"""Isolation of a workload's GPUs: who keeps other jobs off them, and off its part of their memory.

*Enforced* means by the kernel or the driver. *Cooperative* means that jobs and their frameworks heed the
variables that Weir sets. *None* means that no one does.
"""

from typing import NamedTuple

from weir.api.workload_list import Isolation
from weir.model.workloads import WHOLE_MILLI, Workload


class GpuIsolation(NamedTuple):
    """Isolation of the devices and of their memory; None where a workload has no GPU."""

    access: Isolation | None
    memory: Isolation | None


def gpu_isolation(workload: Workload, device_rules: str, *, virtual: bool) -> GpuIsolation:
    """Return how the GPUs of a workload are kept for it.

    `device_rules`: the means of the kernel that holds devices apart on this machine; empty if there is none.
    """
    requests = [group.request for group in workload.groups]
    if not any(request.devices for request in requests):
        return GpuIsolation(None, None)
    if device_rules:
        access: Isolation = "enforced"
    else:
        access = "none" if virtual else "cooperative"
    shares = any(request.gpu_memory or request.share_milli < WHOLE_MILLI for request in requests)
    if shares:
        return GpuIsolation(access, "none" if virtual else "cooperative")
    return GpuIsolation(access, access)
