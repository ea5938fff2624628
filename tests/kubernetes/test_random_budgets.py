"""Reclaim through the real eviction API where budgets protect a random half of the pods.

WEIR_EFFORT=200 goes through 200 rounds instead of one. Up to eight rounds go on at a time, each on nodes of
its own, because most of a round is waiting for controllers.
"""

import os
import random
import time
from collections.abc import Iterator
from itertools import product

import pytest
from tests.kubernetes.constraints import scheduling
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job, pod

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
SEED = int(os.environ.get("WEIR_SEED", "1"))
NODES, GPUS = 3, 4
SITES_MAX = 8
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
PROJECTS = "/apis/weir.dev/v1alpha1/projects"
WORKLOADS = "/apis/weir.dev/v1alpha1/namespaces/{}/workloads"


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-random-budgets") as running:
        yield running


class Site:
    """Nodes of which one team borrows everything, and an owner that asks for a gang; used in round after round."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.label = {"site": name}
        self.team, self.owner = cluster.namespace(), cluster.namespace()
        cluster.add([node(f"{name}-{at}", gpus=GPUS, labels=self.label) for at in range(NODES)])
        cluster.api.create(project(self.team, NODES * GPUS), project(self.owner, 0))
        self.round = 0

    def begin(self, chance: random.Random) -> None:
        """Have the team borrow all GPUs, and a budget protect half of its pods."""
        self.round += 1
        self.pods = chance.choice((1, 2, 3))
        self.gpus = chance.choice((1, 2, 4))
        self.names = [f"p{self.round}-{at}" for at in range(NODES * GPUS)]
        self.guarded = set(chance.sample(self.names, len(self.names) // 2))
        self.allowed = chance.randrange(3)
        asked = self.pods * self.gpus
        for name, quota in ((self.team, NODES * GPUS - asked), (self.owner, asked)):
            self.cluster.api.patch(f"{PROJECTS}/{name}", {"spec": {"quota": {"gpu": quota}}})
        for name in self.names:
            labels = {"guarded": "yes" if name in self.guarded else "no"}
            self.cluster.api.create(
                pod(self.team, name, 1, labels=labels, grace_s=0, nodeSelector=self.label)
            )

    def is_full(self) -> bool:
        return len(self.cluster.running(self.team)) == len(self.names)

    def protect(self) -> None:
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
        self.cluster.api.post(BUDGETS.format(self.team), body)

    def is_protected(self) -> bool:
        status = self.cluster.api.get(f"{BUDGETS.format(self.team)}/half").get("status", {})
        return bool(status.get("disruptionsAllowed") == self.allowed)

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
        name = f"back-{self.round}"
        self.cluster.api.create(
            job(self.owner, name, self.gpus, pods=self.pods, annotations=gang, nodeSelector=self.label)
        )

    def has(self) -> bool:
        return len(self.cluster.running(self.owner)) == self.pods

    def sentence(self) -> str:
        path = f"{WORKLOADS.format(self.owner)}/job-back-{self.round}"
        status = (self.cluster.api.maybe(path) or {}).get("status") or {}
        return str((status.get("reason") or {}).get("sentence"))

    def is_reported(self) -> bool:
        return f"PodDisruptionBudget {self.team}/half protects" in self.sentence()

    def guarded_left(self) -> int:
        return len(self.guarded & set(self.cluster.running(self.team)))

    def end(self) -> None:
        self.unprotect()
        for namespace in (self.team, self.owner):
            self.cluster.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs", grace_s=0)
            self.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods", grace_s=0)

    def is_empty(self) -> bool:
        return not self.cluster.pods(self.team) and not self.cluster.pods(self.owner)


def go_through(sites: list[Site], cluster: Cluster, chance: random.Random) -> list[bool]:
    """Go through a round on each site; return which owners could be served at once."""
    for site in sites:
        site.begin(chance)
    for site in sites:
        cluster.until(site.is_full, "all to run")
        site.protect()
    for site in sites:
        cluster.until(site.is_protected, "the budget to be counted")
    possible = [site.is_possible() for site in sites]
    for site in sites:
        site.ask()
    for site, is_possible in zip(sites, possible, strict=True):
        if not is_possible:
            cluster.until(site.is_reported, site.sentence)
            assert not cluster.running(site.owner)
            assert site.guarded_left() >= len(site.guarded) - site.allowed
            site.unprotect()
        cluster.until(site.has, site.sentence)
        if is_possible:
            assert site.guarded_left() >= len(site.guarded) - site.allowed
        assert len(cluster.running(site.team)) == NODES * GPUS - site.pods * site.gpus
    for site in sites:
        site.end()
    for site in sites:
        cluster.until(site.is_empty, "the nodes to be empty")
    return possible


def test_the_owner_gets_its_gpus_where_a_random_half_is_protected(cluster: Cluster, weir: Weir) -> None:
    chance = random.Random(SEED)
    sites = [Site(cluster, f"site-{at}") for at in range(min(EFFORT, SITES_MAX))]
    outcomes: list[bool] = []
    began_s = time.monotonic()
    while len(outcomes) < EFFORT:
        outcomes += go_through(sites[: EFFORT - len(outcomes)], cluster, chance)
        weir.check()
        served, took_s = outcomes.count(True), time.monotonic() - began_s
        print(f"seed {SEED}: {len(outcomes)} rounds in {took_s:.0f} s, {served} could be served at once")
