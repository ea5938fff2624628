"""Admission checks of submissions: the person's highest priority, and requests that no machine can satisfy.

Both checks need the pool: the project's settings and the nodes.
"""

from collections.abc import Sequence

from weir.engine.node_refusals import NodeRefusals, amount_phrase, sentence_of
from weir.local.server.authorization import Action, Person, may
from weir.local.server.problem_details import FieldErrors
from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.resources import CPU, GPU, MEMORY
from weir.model.workloads import DEFAULT_PRIORITY, WHOLE_MILLI, Workload
from weir.scenario_io.scalars import PRIORITY_MAX

DEFAULT_MAX_PRIORITY = max(DEFAULT_PRIORITY.values())
"""The highest priority of members where their project sets none: that of the most urgent type."""
_TEMPORARY = {"devices in use by others"}
"""Causes that pass without a change of the cluster: such a workload may be queued."""


def highest_priority(queue: Queue, person: Person) -> int:
    """Return the highest priority that a person may give a workload of a project."""
    if may(person, Action.EXCEED_LIMITS):
        return PRIORITY_MAX
    default = DEFAULT_MAX_PRIORITY if queue.max_priority is None else queue.max_priority
    return queue.max_priority_of.get(person.user, default)


def check_priority(workload: Workload, queue: Queue, person: Person, fields: FieldErrors) -> None:
    """Note a priority above the highest of this person in this project."""
    most = highest_priority(queue, person)
    if workload.priority > most:
        fields.at(
            ("priority",),
            f"priority: {workload.priority} is above {most}, the highest for {person.user} in project "
            f"{queue.name}; write {most} or less, or ask an administrator to raise it",
        )


def check_size(workload: Workload, nodes: Sequence[Node], fields: FieldErrors) -> None:
    """Note each group of pods that no node can take, and a gang that all nodes together can't."""
    fits = True
    for at, group in enumerate(workload.groups):
        refusals = NodeRefusals.of(nodes, group.request, ())
        if not refusals.able and not _TEMPORARY & refusals.by.keys():
            fits = False
            fields.at(
                ("pods", at), f"pods[{at}]: {sentence_of(refusals, nodes, group.request)}; ask for less"
            )
    if fits:
        _check_gang(workload, nodes, fields)


def _check_gang(workload: Workload, nodes: Sequence[Node], fields: FieldErrors) -> None:
    """Report the first resource of which the required pods request more than exists."""
    memory = min((node.gpu_memory for node in nodes if node.gpus), default=0)
    wanted = {GPU: 0, CPU: 0, MEMORY: 0}
    for group, needed in zip(workload.groups, workload.needed(), strict=True):
        request = group.request
        milli = request.devices * min(WHOLE_MILLI, request.share_on(memory)) if request.devices else 0
        for resource, amount in ((GPU, milli), (CPU, request.cpu_milli), (MEMORY, request.memory)):
            wanted[resource] += needed * amount
    there = {
        GPU: WHOLE_MILLI * sum(node.gpus for node in nodes),
        CPU: sum(node.capacity.get(CPU, 0) for node in nodes),
        MEMORY: sum(node.capacity.get(MEMORY, 0) for node in nodes),
    }
    for resource, want in wanted.items():
        if want > there[resource]:
            fields.at(
                ("pods",),
                f"pods: the workload needs {amount_phrase(resource, want)} at once; the pool has "
                f"{amount_phrase(resource, there[resource])}; ask for fewer or smaller pods",
            )
            return
