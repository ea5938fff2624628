"""Reclaim through the real eviction API where budgets protect a random half of the pods.

WEIR_EFFORT=10 goes through ten rounds instead of one.
"""

import os
import random
from collections.abc import Iterator
from itertools import product

import pytest
from tests.kubernetes.constraints import scheduling
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job, pod

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
SEED = int(os.environ.get("WEIR_SEED", "1"))
WAIT_S = 180
NODES, GPUS = 3, 4
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-random-budgets") as running:
        yield running


class Round:
    """Have a team borrow a full cluster, protect some of its pods, and let the owner ask for a gang."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster = cluster
        self.team, self.owner = cluster.namespace(), cluster.namespace()
        self.pods = chance.choice((1, 2, 3))
        self.gpus = chance.choice((1, 2, 4))
        self.names = [f"p{at}" for at in range(NODES * GPUS)]
        self.guarded = set(chance.sample(self.names, len(self.names) // 2))
        self.allowed = chance.randrange(3)
        asked = self.pods * self.gpus
        cluster.api.create(project(self.team, NODES * GPUS - asked))
        cluster.api.create(project(self.owner, asked))
        for name in self.names:
            labels = {"guarded": "yes" if name in self.guarded else "no"}
            cluster.api.create(pod(self.team, name, 1, labels=labels, grace_s=0))
        cluster.until(lambda: len(cluster.running(self.team)) == len(self.names), WAIT_S, "all to run")
        self._protect()

    def _protect(self) -> None:
        spec = {
            "minAvailable": len(self.guarded) - self.allowed,
            "selector": {"matchLabels": {"guarded": "yes"}},
        }
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "half"},
            "spec": spec,
        }
        path = BUDGETS.format(self.team)
        self.cluster.api.post(path, body)
        self.cluster.until(
            lambda: (
                self.cluster.api.get(f"{path}/half").get("status", {}).get("disruptionsAllowed")
                == self.allowed
            ),
            WAIT_S,
            "the budget to be counted",
        )

    def unprotect(self) -> None:
        self.cluster.api.delete(f"{BUDGETS.format(self.team)}/half")

    def is_possible(self) -> bool:
        """Return True if some choice of nodes needs no more protected pods than the budget allows."""
        nodes: dict[str, list[bool]] = {}
        for each in self.cluster.api.items(f"/api/v1/namespaces/{self.team}/pods"):
            guarded = each["metadata"]["name"] in self.guarded
            nodes.setdefault(each["spec"]["nodeName"], []).append(guarded)
        options = []
        for pods in nodes.values():
            free = pods.count(False)
            options.append([(at, max(0, at * self.gpus - free)) for at in range(GPUS // self.gpus + 1)])
        return any(
            sum(count for count, _ in choice) == self.pods and sum(cost for _, cost in choice) <= self.allowed
            for choice in product(*options)
        )

    def ask(self) -> None:
        gang = {"weir.dev/min-pods": str(self.pods)}
        self.cluster.api.create(job(self.owner, "back", self.gpus, pods=self.pods, annotations=gang))

    def has(self) -> bool:
        return len(self.cluster.running(self.owner)) == self.pods

    def sentence(self) -> str:
        path = f"/apis/weir.dev/v1alpha1/namespaces/{self.owner}/workloads/job-back"
        status = (self.cluster.api.maybe(path) or {}).get("status") or {}
        return str((status.get("reason") or {}).get("sentence", ""))

    def guarded_left(self) -> int:
        return len(self.guarded & set(self.cluster.running(self.team)))

    def end(self) -> None:
        self.unprotect()
        for namespace in (self.team, self.owner):
            self.cluster.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs", grace_s=0)
            self.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods", grace_s=0)
        self.cluster.until(
            lambda: not self.cluster.running(self.team) and not self.cluster.running(self.owner), WAIT_S
        )


def test_the_owner_gets_its_gpus_where_a_random_half_is_protected(cluster: Cluster, weir: Weir) -> None:
    chance = random.Random(SEED)
    cluster.add_nodes(NODES, gpus=GPUS)
    outcomes = []
    for _ in range(EFFORT):
        here = Round(cluster, chance)
        possible = here.is_possible()
        outcomes.append(possible)
        here.ask()
        if not possible:
            cluster.until(lambda h=here: "PodDisruptionBudget" in h.sentence(), WAIT_S, here.sentence)
            assert not cluster.running(here.owner)
            assert here.guarded_left() >= len(here.guarded) - here.allowed
            here.unprotect()
        cluster.until(here.has, WAIT_S, here.sentence)
        if possible:
            assert here.guarded_left() >= len(here.guarded) - here.allowed
        assert len(cluster.running(here.team)) == NODES * GPUS - here.pods * here.gpus
        here.end()
        weir.check()
    print(f"seed {SEED}: {outcomes.count(True)} of {EFFORT} rounds could be served at once")
