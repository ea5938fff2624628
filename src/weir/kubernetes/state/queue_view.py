"""Queues and their workloads at one moment, for readers on another thread."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.owner_state import owner_is_gone
from weir.kubernetes.state.queues.unscheduled_gpus import remarks_of_projects

REFUSED_MAX = 1_000
Key = tuple[str, str]
"""A kind and a name."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """An immutable copy of the queues."""

    generations: Mapping[Key, int]
    refused: Mapping[Key, str]
    remarks: Mapping[Key, str]
    leaving: Mapping[Key, str]  # objects under deletion, with the cause of the delay
    running: Mapping[str, int]  # workloads by project
    pending: Mapping[str, int]
    refused_workloads: Mapping[str, str]  # the first refused workloads by name, with a sentence
    uids: Mapping[Key, str]  # a recreated object has another uid


def view_of(cluster_state: ClusterState, leaving: Mapping[Key, str]) -> QueueView:
    """Return the queues of a state; the caller holds its lock."""
    running: Counter[str] = Counter()
    pending: Counter[str] = Counter()
    registry, resolver = cluster_state.registry, cluster_state.resolver
    for gang in registry.named.values():
        if gang.reported is None or gang.project is None:
            continue
        if any(tracked.holds for tracked in gang.pods()):
            running[gang.project] += 1
        elif gang.name in registry.objects or not owner_is_gone(gang, resolver.owners, resolver.groups):
            pending[gang.project] += 1  # else its remaining pods are being deleted with its owner
    refused = {gang.name: gang.refusal for gang in registry.named.values() if gang.refusal and gang.count}
    quota_objects = cluster_state.quota_objects
    outside = remarks_of_projects(cluster_state.pods.others, quota_objects.tree.projects_of)
    return QueueView(
        dict(quota_objects.generations),
        dict(quota_objects.refused),
        {**outside, **quota_objects.tree.remarks},
        leaving,
        running,
        pending,
        dict(sorted(refused.items())[:REFUSED_MAX]),
        {key: metadata.uid for key, metadata in quota_objects.metadata.items()},
    )
