"""Isolation of a workload's GPUs and of its part of their memory from other jobs.

*Enforced* means by the kernel or the driver. *Cooperative* means that jobs and their frameworks heed the
variables that Weir sets. *None* means that no one does.
"""

from typing import NamedTuple

from weir.api.workload_list import Isolation
from weir.model.workloads import WHOLE_MILLI, Workload


class GpuIsolation(NamedTuple):
    """Isolation of the devices and of their memory; None where a workload has no GPU.

    `access_by`: the means of the kernel that holds the devices apart; empty if there is none. `memory_by`:
    the limit on the memory of shares. `memory_why`: the reason why there is none; empty if there is one, or
    none is needed.
    """

    access: Isolation | None
    memory: Isolation | None
    access_by: str = ""
    memory_by: str = ""
    memory_why: str = ""


def gpu_isolation(
    workload: Workload, device_rules: str, *, virtual: bool, memory_not_limited: str
) -> GpuIsolation:
    """Return how the GPUs of a workload are kept for it.

    `device_rules`: the means of the kernel that holds devices apart on this machine; empty if there is none.
    `memory_not_limited`: why the driver doesn't limit memory of shares; empty if each limit was read back.
    """
    requests = [group.request for group in workload.groups]
    if not any(request.devices for request in requests):
        return GpuIsolation(None, None)
    if device_rules:
        access: Isolation = "enforced"
    else:
        access = "none" if virtual else "cooperative"
    if not any(request.gpu_memory or request.share_milli < WHOLE_MILLI for request in requests):
        return GpuIsolation(access, access, device_rules)
    if virtual:
        return GpuIsolation(access, "none", device_rules)
    why = memory_not_limited if access == "enforced" else "other jobs can open its GPUs"
    if why:
        return GpuIsolation(access, "cooperative", device_rules, memory_why=why)
    return GpuIsolation(access, "enforced", device_rules, memory_by="driver")
