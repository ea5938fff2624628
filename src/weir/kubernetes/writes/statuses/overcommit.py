"""Over-committed nodes for people: a condition of each Workload concerned, events and log lines of nodes."""

from collections.abc import Sequence

from weir.engine.overcommit import OvercommittedNode
from weir.kubernetes.state.nodes.overcommit import OvercommitChange
from weir.kubernetes.writes.operations import EmitEvent, EventSubject
from weir.kubernetes.writes.statuses.values import Words, trouble_conditions

GPU_OVERCOMMITTED = "GPUOvercommitted"


def overcommit_conditions(nodes: Sequence[OvercommittedNode]) -> list[Words]:
    """Return the conditions of a Workload with devices on these nodes."""
    return trouble_conditions(GPU_OVERCOMMITTED, "MoreInUseThanThere", nodes, "nodes")


def overcommit_event(change: OvercommitChange) -> EmitEvent:
    """Return the event on a node. It names foreign pods, since only administrators read it."""
    node, now = EventSubject("v1", "Node", change.node, uid=change.node), change.now
    if now is None:
        return EmitEvent(node, "GPUOvercommitEnded", "Each pod has the GPUs that it holds again.")
    by = f" ({', '.join(change.users)})" if change.users else ""
    return EmitEvent(node, GPU_OVERCOMMITTED, f"{now.sentence}{by}.", type="Warning")


def stuck_event(over: OvercommittedNode) -> EmitEvent:
    """Return the event that no pod on an over-committed node may be stopped any more."""
    note = (
        f"{over.sentence}. Weir's own pods on it aren't preemptible, so Weir doesn't stop them: "
        "delete or move pods of other schedulers, or pods that bound themselves."
    )
    return EmitEvent(
        EventSubject("v1", "Node", over.node, uid=over.node), "GPUOvercommitStays", note, type="Warning"
    )
