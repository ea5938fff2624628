"""The price of taking (§6), held against the optimum of an integer program.

On one node it is met exactly. Over nodes a gang takes its nodes cheapest first, which is exact where each
pod needs a node of its own, and stays within twice the optimum where it isn't.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    Checkpointed,
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    QueuesSet,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce

from .budget import examples
from .random_cluster import node

RESTART = 2000.0
NO_MOVES = {"enabled": False}
UNPAID = Policy(victim_policy="lowest_cost", consolidation=NO_MOVES, price={"size_credit": 0})  # type: ignore[arg-type]
"""No credit for size: every price is positive, and the cheapest set is also a minimal one."""
PAID = Policy(victim_policy="lowest_cost", consolidation=NO_MOVES)  # type: ignore[arg-type]
MOVES = Policy(consolidation={"budget": 1e9})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Victim:
    """A workload that may be stopped: on how many devices of which nodes, and what it would lose."""

    name: str
    places: tuple[tuple[int, tuple[int, ...]], ...]  # node and devices of each pod
    since_s: float
    milli: int = WHOLE_MILLI

    @property
    def devices(self) -> float:
        """Devices it holds, a share as that share."""
        return sum(len(devices) for _, devices in self.places) * self.milli / WHOLE_MILLI

    @property
    def price(self) -> float:
        """Return the loss of the victim and a restart."""
        return self.devices * self.since_s + RESTART

    def on(self, index: int) -> int:
        """Devices it holds on a node."""
        return sum(len(devices) for place, devices in self.places if place == index)


@dataclass(frozen=True)
class Scene:
    """Nodes full of victims, and a gang that asks for whole devices."""

    gpus: tuple[int, ...]
    victims: tuple[Victim, ...]
    pods: int
    per_pod: int

    def cluster(self, *, same_project: bool = False) -> Cluster:
        """The engine's view: the victims borrow, the gang is in quota."""
        cluster = Cluster()
        for node_index, gpus in enumerate(self.gpus):
            reduce(cluster, NodeSet(node(f"n{node_index}", gpus, cpu=1000)))
        owner, borrower = (
            Queue("owner", quota={"gpu": 1_000_000}),
            Queue("borrower", quota={"gpu": 0}, created_s=60.0),
        )
        reduce(cluster, QueuesSet((owner, borrower)))
        for number, victim in enumerate(self.victims):
            asks = len(victim.places[0][1])
            group = PodGroup(
                "0", Request(devices=asks, share_milli=victim.milli), len(victim.places), len(victim.places)
            )
            project = "owner" if same_project else "borrower"
            reported = Workload(victim.name, project, (group,), group.count, -1e6 + number)
            reduce(cluster, WorkloadSubmitted(reported, reported.submitted_s))
            for index, (node_index, devices) in enumerate(victim.places):
                place = Placement(PodKey(victim.name, 0, index), f"n{node_index}", devices)
                reduce(cluster, PodAssigned(place, -5e5))
            reduce(cluster, Checkpointed(victim.name, -victim.since_s))
        group = PodGroup("0", Request(devices=self.per_pod), self.pods, self.pods)
        reduce(cluster, WorkloadSubmitted(Workload("asks", "owner", (group,), self.pods, -10.0), -10.0))
        return cluster

    def free(self, index: int) -> int:
        """Devices of a node without pods."""
        taken = {
            device
            for victim in self.victims
            for place, devices in victim.places
            for device in devices
            if place == index
        }
        return self.gpus[index] - len(taken)


def stopped(plan: Plan) -> set[str]:
    """The workloads a plan stops."""
    return {eviction.pod.workload for eviction in plan.evictions}


def price_of(
    scene: Scene, names: set[str], price: Callable[[Victim], float] = lambda victim: victim.price
) -> float:
    """Return the price of a set of victims."""
    return sum(price(victim) for victim in scene.victims if victim.name in names)


AGES = st.integers(1, 60).map(lambda minutes: 60.0 * minutes)


@st.composite
def one_node(draw: st.DrawFn, most: int = 14) -> Scene:
    """Draw one full node of whole devices."""
    sizes = draw(st.lists(st.sampled_from((1, 1, 1, 2, 2, 3, 4)), min_size=1, max_size=most))
    victims, first = [], 0
    for index, size in enumerate(sizes):
        victims.append(Victim(f"v{index}", ((0, tuple(range(first, first + size))),), draw(AGES)))
        first += size
    return Scene((first,), tuple(victims), 1, draw(st.integers(1, first)))


@examples(36)
@given(one_node())
def test_on_one_node_the_price_is_the_least(scene: Scene) -> None:
    plan = decide(scene.cluster(), UNPAID, 0.0, EngineCache())
    assert np.isclose(price_of(scene, stopped(plan)), least_price(scene))


@examples(24)
@given(one_node(most=9))
def test_on_one_node_the_price_is_the_least_with_the_credit_for_size(scene: Scene) -> None:
    def price(victim: Victim) -> float:
        return victim.price - PAID.price.size_credit * log(victim.devices)

    plan = decide(scene.cluster(), PAID, 0.0, EngineCache())
    enough = [
        {victim.name for victim in some}
        for size in range(1, len(scene.victims) + 1)
        for some in combinations(scene.victims, size)
        if sum(victim.on(0) for victim in some) >= scene.per_pod
        and all(sum(v.on(0) for v in some if v is not spared) < scene.per_pod for spared in some)
    ]
    least = min(price_of(scene, names, price) for names in enough)
    assert np.isclose(price_of(scene, stopped(plan), price), least)


@st.composite
def shared_node(draw: st.DrawFn) -> Scene:
    """Draw one full node on which some devices are shared.

    At most ten victims: of more, where devices are shared, not every set is looked at.
    """
    victims: list[Victim] = []
    gpus = draw(st.integers(1, 5))
    for device in range(gpus):
        for milli in draw(st.sampled_from(((1000,), (500, 500), (300, 300, 300), (700,)))):
            if len(victims) < 10:
                victims.append(Victim(f"v{len(victims)}", ((0, (device,)),), draw(AGES), milli))
    return Scene((gpus,), tuple(victims), 1, draw(st.integers(1, gpus)))


@examples(24)
@given(shared_node())
def test_on_one_node_with_shared_devices_the_price_is_the_least(scene: Scene) -> None:
    plan = decide(scene.cluster(), UNPAID, 0.0, EngineCache())
    assert np.isclose(price_of(scene, stopped(plan)), least_price(scene))


@st.composite
def many_nodes(draw: st.DrawFn, *, own: bool, gangs: bool = False) -> Scene:
    """Nodes of 4 devices; `own`: each pod of the asker needs one of its own. `gangs`: some victims span two nodes."""
    count = draw(st.integers(2, 5))
    victims: list[Victim] = []
    spare = [list(range(4)) for _ in range(count)]
    if gangs:
        for first in range(0, count - 1, 2):
            if draw(st.booleans()):
                places = tuple(
                    (index, (spare[index].pop(0), spare[index].pop(0))) for index in (first, first + 1)
                )
                victims.append(Victim(f"v{len(victims)}", places, draw(AGES)))
    for index in range(count):
        while spare[index]:
            size = min(len(spare[index]), draw(st.sampled_from((1, 1, 2, 3))))
            devices = tuple(spare[index].pop(0) for _ in range(size))
            if draw(st.sampled_from((True, True, True, False))):
                victims.append(Victim(f"v{len(victims)}", ((index, devices),), draw(AGES)))
    per_pod = draw(st.sampled_from((3, 4) if own else (1, 2, 2)))
    return Scene((4,) * count, tuple(victims), draw(st.integers(1, count)), per_pod)


@examples(24)
@given(many_nodes(own=True))
def test_a_gang_that_needs_a_node_for_each_pod_pays_the_least(scene: Scene) -> None:
    plan = decide(scene.cluster(), UNPAID, 0.0, EngineCache())
    assert np.isclose(price_of(scene, stopped(plan)), least_price(scene))


@examples(24)
@given(many_nodes(own=False) | many_nodes(own=True, gangs=True))
def test_a_gang_never_pays_more_than_twice_the_least(scene: Scene) -> None:
    plan = decide(scene.cluster(), UNPAID, 0.0, EngineCache())
    assert price_of(scene, stopped(plan)) <= 2 * least_price(scene) + 1e-6


def least_price(scene: Scene) -> float:
    """The optimum: which victims go, which devices that empties, and how many of the asker's pods each node takes."""
    devices = [(index, device) for index, gpus in enumerate(scene.gpus) for device in range(gpus)]
    count, nodes = len(scene.victims), len(scene.gpus)
    size = count + len(devices) + nodes
    rows, lower, upper = [], [], []

    def row(entries: dict[int, float], low: float, high: float) -> None:
        line = np.zeros(size)
        for column, value in entries.items():
            line[column] = value
        rows.append(line)
        lower.append(low)
        upper.append(high)

    for number, victim in enumerate(scene.victims):
        for index, some in victim.places:
            for device in some:  # a device is empty only if everyone on it goes
                row({count + devices.index((index, device)): 1.0, number: -1.0}, -np.inf, 0.0)
    for index in range(nodes):
        entries = {count + place: -1.0 for place, (where, _) in enumerate(devices) if where == index}
        row({**entries, count + len(devices) + index: float(scene.per_pod)}, -np.inf, 0.0)
    row({count + len(devices) + column: 1.0 for column in range(nodes)}, float(scene.pods), float(scene.pods))
    cost = np.array([victim.price for victim in scene.victims] + [0.0] * (size - count))
    return _solved(cost, rows, lower, upper, [1.0] * (count + len(devices)) + [float(scene.pods)] * nodes)


def _solved(
    cost: np.ndarray,
    rows: Sequence[np.ndarray],
    lower: Sequence[float],
    upper: Sequence[float],
    most: Sequence[float],
) -> float:
    from scipy.optimize import (
        Bounds,
        LinearConstraint,
        milp,
    )  # not above: every process of a run collects this file

    result = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), lower, upper),
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, most),
    )
    return float(result.fun) if result.success else float("inf")


# Moves


@st.composite
def scattered(draw: st.DrawFn) -> Scene:
    """A few nodes in which running workloads leave holes."""
    count = draw(st.integers(2, 4))
    victims: list[Victim] = []
    for index in range(count):
        first = 0
        for size in draw(st.lists(st.sampled_from((1, 1, 2)), max_size=3)):
            if first + size <= 4:
                victims.append(
                    Victim(f"v{len(victims)}", ((index, tuple(range(first, first + size))),), draw(AGES))
                )
                first += size
    return Scene((4,) * count, tuple(victims), 1, draw(st.integers(2, 4)))


@examples(36)
@given(scattered())
def test_moves_cost_the_least_there_is(scene: Scene) -> None:
    cluster = scene.cluster(same_project=True)
    plan = decide(cluster, MOVES, 0.0, EngineCache())
    assert all(eviction.moves for eviction in plan.evictions)
    paid = price_of(scene, stopped(plan))
    served = len(plan.binds) + len(plan.nominations) > 0
    least = least_price_of_moves(scene)
    assert served is bool(np.isfinite(least))
    if served:
        assert np.isclose(paid, least)


def least_price_of_moves(scene: Scene) -> float:
    """The optimum where the asker takes one node and those in its way go to holes elsewhere."""
    return min((_cleared(scene, index) for index in range(len(scene.gpus))), default=float("inf"))


def _cleared(scene: Scene, index: int) -> float:
    victims = [victim for victim in scene.victims if victim.on(index)]
    others = [other for other in range(len(scene.gpus)) if other != index]
    lack = scene.per_pod - scene.free(index)
    if lack <= 0:
        return 0.0
    if not victims or not others:
        return float("inf")
    size = len(victims) * len(others)
    rows, lower, upper = [], [], []
    for number in range(len(victims)):  # to one place at most
        line = np.zeros(size)
        line[number * len(others) : (number + 1) * len(others)] = 1.0
        rows.append(line)
        lower.append(0.0)
        upper.append(1.0)
    for place, other in enumerate(others):  # no more than the hole holds
        line = np.zeros(size)
        for number, victim in enumerate(victims):
            line[number * len(others) + place] = victim.devices
        rows.append(line)
        lower.append(0.0)
        upper.append(float(scene.free(other)))
    rows.append(np.repeat([victim.devices for victim in victims], len(others)))
    lower.append(float(lack))
    upper.append(np.inf)
    cost = np.repeat([victim.price for victim in victims], len(others))
    return _solved(cost, rows, lower, upper, [1.0] * size)
