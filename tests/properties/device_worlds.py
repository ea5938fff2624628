"""Random worlds of devices with a weight, and of parts of devices."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from weir.model.workloads import WHOLE_MILLI, Request

from .random_cluster import GI, World, worlds


@st.composite
def weighted_worlds(draw: st.DrawFn, **kinds: Any) -> World:
    """Return a world in which devices of some nodes, and those that some pods ask for, have a weight."""
    world: World = draw(worlds(**kinds))
    weights = st.sampled_from((WHOLE_MILLI, 142, 500, 2000))
    workloads = []
    for workload in world.workloads:
        weight = draw(weights)
        groups = [
            replace(group, request=replace(group.request, gpu_weight_milli=weight))
            if group.request.is_whole and not group.request.gpu_memory
            else group
            for group in workload.groups
        ]
        workloads.append(replace(workload, groups=tuple(groups)))
    nodes = tuple(replace(world_node, gpu_weight_milli=draw(weights)) for world_node in world.nodes)
    return replace(world, nodes=nodes, workloads=tuple(workloads))


SLICE = "nvidia.com/mig-1g.10gb"
SHARED = (
    *(Request(devices=1, share_milli=500),) * 4,
    Request(devices=1, share_milli=300),
    Request(devices=1, share_milli=700),
    Request(devices=2, share_milli=500),
    *(Request(devices=1, share_milli=0, gpu_memory=memory * GI) for memory in (5, 8, 40)),
    Request(further=((SLICE, 1),)),
    *(Request(devices=1),) * 3,
    Request(devices=2),
    Request(devices=3),
)
"""Requests for parts of devices, two of which often fill one, for device memory and slices, and whole ones."""


@st.composite
def shared_worlds(draw: st.DrawFn, **kinds: Any) -> World:
    """Return a world in which most pods hold parts of devices."""
    world: World = draw(worlds(**kinds))
    workloads = []
    for workload in world.workloads:
        groups = []
        for group in workload.groups:
            part = draw(st.sampled_from(SHARED))
            request = replace(
                group.request,
                devices=part.devices,
                share_milli=part.share_milli,
                gpu_memory=part.gpu_memory,
                further=part.further,
            )
            groups.append(replace(group, request=request))
        workloads.append(replace(workload, groups=tuple(groups)))
    nodes = tuple(
        replace(world_node, capacity={**world_node.capacity, SLICE: 2}) for world_node in world.nodes
    )
    return replace(world, nodes=nodes, workloads=tuple(workloads))
