"""Random changes of a cluster by people, nodes, networks and another scheduler, by a seed."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import count

from tests.kubernetes.audit import GANG, OURS, OVER
from tests.kubernetes.node_work import NodeWork
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import RUNS, STOPS_AFTER, set_down
from tools.controlplane.proxy import NONE, FaultProxy, Faults
from tools.controlplane.weir import project
from tools.controlplane.work import job, pod

NODES, GPUS = 6, 4
TEAMS = ("blue", "green", "red")
THEIRS = "another"
THEIRS_MAX = NODES * GPUS // 3
"""GPUs that others use at once, so that gangs of ours find capacity too."""
WAITING_MAX = 20
KEPT_S = 10
"""Time that a finished Job stays, so that a long run has no more objects than a short one."""
FAULTS = (
    NONE,
    Faults(cut_watch_after_s=0.5),
    Faults(conflict=0.2),
    Faults(gone=0.3, cut_watch_after_s=1.0),
    Faults(throttled=0.2, retry_after_s=1),
    Faults(broken=0.2),
    Faults(refused=0.2),
    Faults(dropped=0.2),
    Faults(dropped=0.5, where=lambda asked: asked.path.endswith("/binding")),
    Faults(delayed=0.5, delay_s=1.0),
    Faults(requests_per_s=20.0),
    Faults(
        conflict=0.05,
        gone=0.05,
        throttled=0.05,
        broken=0.05,
        refused=0.05,
        dropped=0.05,
        cut_watch_after_s=2.0,
    ),
)


INJECTED = frozenset(
    {
        "conflict",
        "gone",
        "throttled",
        "broken",
        "refused",
        "dropped",
        "delayed",
        "slowed",
        "cut_watch",
        "cut",
    }
)
"""The kinds of faults, as the proxy counts them."""


class Churn:
    """Everybody but Weir."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, seed: int) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.chance = random.Random(seed)
        self.names = cluster.add_nodes(NODES, gpus=GPUS)
        self.spaces = [cluster.namespace(f"{team}-{seed}") for team in TEAMS]
        for space in self.spaces:
            cluster.api.create(project(space, NODES * GPUS // len(TEAMS)))
        self.theirs = cluster.namespace(f"theirs-{seed}")
        self.nodes = NodeWork(cluster, self.theirs, self.chance)
        self.nodes.turn_daemons()
        for name in self.names[:2]:
            self.nodes.add_static(name, 1)
        self.done: Counter[str] = Counter()
        self._numbers = count(1)
        self._down: set[str] = set()
        self._faults_to_come: list[Faults] = []

    def turn(self) -> None:
        """Something happens."""
        acts = {
            self._job: 6,
            self._gang: 4,
            self._other_scheduler: 4,
            self._static: 2,
            self._daemons: 1,
            self._delete: 2,
            self._end_pod: 2,
            self._flap: 1,
            self._faults: 4,
            self._cut: 1,
        }
        act = self.chance.choices(list(acts), list(acts.values()))[0]
        act()
        self.done[act.__name__] += 1

    def settle(self) -> None:
        """Nodes are up with nothing of their own on them, and nothing fails any more."""
        self.proxy.calm()
        self.nodes.end()
        for name in list(self._down):
            set_down(self.cluster.api, name, down=False)
            self._down.discard(name)

    @property
    def missing(self) -> frozenset[str]:
        """Kinds of faults of which there has been none yet."""
        return INJECTED - {kind for kind, times in self.proxy.injected.items() if times}

    def end(self) -> None:
        """Everything is deleted."""
        for space in self.spaces:
            self.cluster.api.delete(f"/apis/batch/v1/namespaces/{space}/jobs")
        self.cluster.api.delete(f"/api/v1/namespaces/{self.theirs}/pods")

    def jobs(self) -> list[Object]:
        return self.cluster.api.items("/apis/batch/v1/jobs")

    def unfinished(self) -> list[str]:
        """Jobs that aren't complete, but for those that lack pods though all were made once.

        For these Weir can do nothing: their controller waits for minutes before it makes another pod.
        """
        pods = Counter(
            f"{one['metadata']['namespace']}/{one['metadata']['labels'].get('job-name')}"
            for one in self.cluster.pods()
            if one["status"]["phase"] != "Failed" and "labels" in one["metadata"]
        )
        return [
            name
            for one in self.jobs()
            if not any(answer["type"] == "Complete" for answer in one["status"].get("conditions", []))
            and (
                pods[name := f"{one['metadata']['namespace']}/{one['metadata']['name']}"]
                >= one["spec"]["completions"]
                or "startTime" not in one["status"]
            )
        ]

    def _life(self) -> dict[str, str]:
        marks = {RUNS: f"{self.chance.uniform(0.5, 5.0):.1f}s"}
        if self.chance.random() < 0.3:
            marks[STOPS_AFTER] = f"{self.chance.uniform(0.1, 2.0):.1f}s"
        return marks

    def _job(self) -> None:
        gpus = self.chance.choice((1, 1, 1, 2, 4))
        self._create(
            job(self._space(), f"one-{next(self._numbers)}", gpus, pod_annotations=self._life(), **_ENDLESS)
        )

    def _gang(self) -> None:
        pods, gpus = self.chance.choice(((2, 2), (3, 2), (2, 4), (4, 1), (6, 1), (4, 4)))
        made = job(
            self._space(),
            f"gang-{next(self._numbers)}",
            gpus,
            pods=pods,
            labels={GANG: str(pods)},
            annotations={"weir.dev/min-pods": str(pods)},
            pod_annotations=self._life(),
            **_ENDLESS,
        )
        self._create(made)

    def _create(self, made: dict) -> None:
        waiting = [pod for pod in self.cluster.pods() if pod["status"].get("phase") == "Pending"]
        if len(waiting) < WAITING_MAX:
            made["spec"] |= {
                "podFailurePolicy": EVICTIONS_ARE_NO_FAILURE,
                "ttlSecondsAfterFinished": KEPT_S,
            }
            self.cluster.api.create(made)

    def _other_scheduler(self) -> None:
        """It looks where there is capacity now, and takes it: with the pod itself, or by a binding after it."""
        gpus = self.chance.choice((1, 1, 2, 4))
        node = self._node_for(gpus)
        if not node:
            return
        name = f"theirs-{next(self._numbers)}"
        marks = {RUNS: f"{self.chance.uniform(2.0, 15.0):.1f}s"}
        at_once = {"nodeName": node} if self.chance.random() < 0.5 else {}
        self.cluster.api.create(
            pod(self.theirs, name, gpus, annotations=marks, scheduler=THEIRS, grace_s=3, **at_once)
        )
        if not at_once:
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            self.cluster.api.post(f"/api/v1/namespaces/{self.theirs}/pods/{name}/binding", body)

    def _node_for(self, gpus: int) -> str:
        """Return a node with this number of free GPUs, unless others have enough already."""
        there = self.cluster.pods()
        self._sweep(there)
        held = [one for one in there if one["spec"].get("nodeName") and one["status"]["phase"] not in OVER]
        if gpus + sum(_gpus(one) for one in held if one["spec"]["schedulerName"] != OURS) > THEIRS_MAX:
            return ""
        free = [name for name in self.names if name not in self._down and _free(name, held) >= gpus]
        return self.chance.choice(free) if free else ""

    def _static(self) -> None:
        """A static pod begins, or its mirror is deleted."""
        if self.chance.random() < 0.5:
            self.nodes.end_static()
        elif node := self._node_for(gpus := self.chance.choice((1, 2))):
            self.nodes.add_static(node, gpus)

    def _daemons(self) -> None:
        self.nodes.turn_daemons()

    def _sweep(self, there: Sequence[Object]) -> None:
        """Delete bare pods that are over, since no controller does."""
        for one in there:
            if _is_theirs(one) and one["status"]["phase"] in OVER:
                self.cluster.api.delete(f"/api/v1/namespaces/{self.theirs}/pods/{one['metadata']['name']}")

    def _space(self) -> str:
        return self.chance.choice(self.spaces)

    def _delete(self) -> None:
        there = self.jobs()
        if there:
            one = self.chance.choice(there)["metadata"]
            self.cluster.api.delete(f"/apis/batch/v1/namespaces/{one['namespace']}/jobs/{one['name']}")

    def _end_pod(self) -> None:
        """A pod is deleted by hand; its Job makes another."""
        there = [pod for pod in self.cluster.pods() if pod["spec"].get("nodeName")]
        if there:
            one = self.chance.choice(there)["metadata"]
            self.cluster.api.delete(f"/api/v1/namespaces/{one['namespace']}/pods/{one['name']}")

    def _flap(self) -> None:
        if self._down and self.chance.random() < 0.7:
            name = self.chance.choice(sorted(self._down))
            self._down.discard(name)
            set_down(self.cluster.api, name, down=False)
        elif len(self._down) < NODES // 3:
            name = self.chance.choice(self.names)
            self._down.add(name)
            set_down(self.cluster.api, name)

    def _faults(self) -> None:
        """The next of all there are, in another order each time."""
        if not self._faults_to_come:
            self._faults_to_come = self.chance.sample(FAULTS, len(FAULTS))
        self.proxy.faults = self._faults_to_come.pop()

    def _cut(self) -> None:
        self.proxy.cut()


def _is_theirs(one: Object) -> bool:
    return bool(one["spec"]["schedulerName"] == THEIRS)


def _gpus(one: Object) -> int:
    return int(one["spec"]["containers"][0]["resources"].get("limits", {}).get("nvidia.com/gpu", 0))


def _free(node: str, held: Sequence[Object]) -> int:
    return GPUS - sum(_gpus(one) for one in held if one["spec"]["nodeName"] == node)


_ENDLESS = {"retries": 100_000, "grace_s": 3}
EVICTIONS_ARE_NO_FAILURE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
"""Without it the Job's controller waits 10 s, 20 s, 40 s and so on before it makes another pod."""
