"""Changes of the priority of a workload that isn't over."""

import asyncio
from dataclasses import replace

from weir.control.journal import WorkloadRecord
from weir.local.server.admission import check_priority
from weir.local.server.authorization import Person
from weir.local.server.pool_inventory import PoolInventory
from weir.local.server.problem_details import FieldErrors
from weir.model.workloads import Workload
from weir.store import Store


def check_new_priority(
    workload: Workload, priority: int, inventory: PoolInventory, person: Person
) -> Workload:
    """Return a workload with another priority.

    Raises:
        RequestRefused: it is above the highest of this person in the project.
    """
    fields = FieldErrors("The priority")
    changed = replace(workload, priority=priority)
    check_priority(changed, inventory.of[workload.project], person, fields)
    fields.refuse_if_any()
    return changed


async def change_priority(store: Store, name: str, priority: int) -> WorkloadRecord:
    """Write a priority down. Its preemptibility stays."""
    return await asyncio.wrap_future(store.workloads.set_priority(name, priority))
