"""Random worlds with quotas and limits of GPU models, and policies that repack or swap."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import WHOLE_MILLI

from .random_cluster import POLICIES, Does, World, single, worlds

REPACKING = (
    Policy(repack={"enabled": True, "max_stops": 4}),  # type: ignore[arg-type]
    Policy(preset="fair", repack={"enabled": True, "max_stops": 4}),  # type: ignore[arg-type]
)


@st.composite
def model_bound_worlds(draw: st.DrawFn, **kinds: Any) -> World:
    """Return a world in which queues have quotas and limits of single GPU models."""
    world: World = draw(worlds(policies=(*POLICIES, *REPACKING), **kinds))
    amounts = st.sampled_from((0, 1, 2, 3))
    queues = []
    for queue in world.queues:
        bounded = draw(st.sampled_from(((), (), ("A100",), ("H100",), ("A100", "H100"))))
        quota = {f"gpu.{model}": draw(amounts) * WHOLE_MILLI for model in bounded if draw(st.booleans())}
        limit = {f"gpu.{model}": draw(amounts) * WHOLE_MILLI for model in bounded}
        limit = {name: most + quota.get(name, 0) for name, most in limit.items()}
        queues.append(replace(queue, quota={**queue.quota, **quota}, limit={**queue.limit, **limit}))
    nodes = tuple(
        replace(world_node, gpu_model=draw(st.sampled_from(("A100", "H100")))) for world_node in world.nodes
    )
    return replace(world, queues=tuple(queues), nodes=nodes)


@st.composite
def swapping_worlds(draw: st.DrawFn) -> World:
    """Return a world of borrowers that often save their state: those of every other project run long."""
    world: World = draw(model_bound_worlds())
    limits = st.sampled_from(({}, {"gpu": 1000}, {"gpu": 2000}, {"gpu.A100": 1000}))
    queues = [Queue("d", is_project=False, limit=draw(limits))]
    queues += [Queue(f"p{index}", "d", quota={"gpu": 0}, limit=draw(limits)) for index in range(4)]
    sizes = st.sampled_from((1, 1, 2))
    long = [single(f"long{index}", f"p{1 + 2 * (index % 2)}", draw(sizes)) for index in range(5)]
    short = [
        single(f"short{index}", f"p{2 * (index % 2)}", draw(sizes), priority=50 + index) for index in range(5)
    ]
    steps = [(Does.SUBMIT, 4), (Does.CYCLE, 0), (Does.SUBMIT, 4)]
    for _ in range(4):
        steps += [(Does.SAVE, which) for which in draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))]
        steps.append((Does.CYCLE, 0))
    policy = Policy.model_validate({"preset": draw(st.sampled_from(("throughput", "balanced")))})
    return replace(
        world, queues=tuple(queues), workloads=(*long, *short), steps=tuple(steps), policy=policy, tick_s=40.0
    )
