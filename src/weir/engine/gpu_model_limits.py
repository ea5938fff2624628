"""Limits on one GPU model, for work that names none: which nodes are open to it.

A gang uses nodes that its limits open to all of its pods. If no model's limit covers the whole gang, its pods
are placed one by one within the limits of each model.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from weir.engine.feasibility import Bools
from weir.engine.placer import Placer, in_order
from weir.engine.pod_placer import NodePlacement
from weir.model.policy import AffinityPolicy
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.shapes import GPU_ROW


def nodes_without_models(cluster: Cluster, models: set[str]) -> Bools:
    """Return the nodes whose devices are of none of these models."""
    mask = np.ones(cluster.free_capacity.free.shape[1], np.bool_)
    for at, node in enumerate(cluster.nodes):
        if node is not None and node.gpu_model in models:
            mask[at] = False
    return mask


def place_by_pod(
    placer: Placer,
    job: Job,
    pods: Mapping[int, Sequence[Pod]],
    affinity: tuple[AffinityPolicy, ...],
    within: Bools | None,
    left: Mapping[str, int],
) -> list[NodePlacement] | None:
    """Return placements one by one, of each model at most `left` thousandths of devices.

    None, with the capacity unchanged, if they don't fit.
    """
    still = dict(left)
    cluster, placements = placer.cluster, list[NodePlacement]()
    placer.capacity.begin()
    for group in in_order(job, pods):
        shape = job.shapes[group]
        milli = sum(amount for row, amount in job.requests[group] if row == GPU_ROW)
        for pod in pods[group]:
            shut = {model for model, have in still.items() if have < milli}
            mask = nodes_without_models(cluster, shut)
            node = placer.best_node(shape, affinity, mask if within is None else mask & within)
            if node < 0:
                placer.capacity.rollback()
                return None
            placements.append(placer.put(pod, node, affinity))
            known = cluster.nodes[node]
            if known is not None and known.gpu_model in still:
                still[known.gpu_model] -= milli
    placer.capacity.commit()
    return placements
