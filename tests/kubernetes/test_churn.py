"""Work comes and goes, nodes flap, the way to the API server fails in every way, and Weir is killed all the while.

WEIR_EFFORT makes it longer: 1 is about a minute of it with what follows, 50 half an hour; WEIR_SEED makes it another.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest
from tests.kubernetes.audit import GANG, Audit
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import RUNS, STOPS_AFTER, set_down
from tools.controlplane.proxy import NONE, FaultProxy, Faults
from tools.controlplane.weir import Weir, install_kinds, project
from tools.controlplane.work import job

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
SEED = int(os.environ.get("WEIR_SEED", "1"))
CHURN_S = 20 * EFFORT
NODES, GPUS = 6, 4
TEAMS = ("blue", "green", "red")
LIVES_S = (0.5, 8.0)  # of one Weir, from when it begins to work until it is killed
KILLED_AT_ONCE = 0.2  # the part of them that doesn't get so far
GANG_PART_S = 30.0  # a gang may be in part so long: it is bound, loses a pod, or is stopped
SETTLED_S = 180.0
MEMORY_MORE_MIB = 24  # in the second half of a life than in the first

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


class Churn:
    """What people, nodes and networks do, by a seed."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, seed: int) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.chance = random.Random(seed)
        self.names = cluster.add_nodes(NODES, gpus=GPUS)
        self.spaces = [cluster.namespace(f"{team}-{seed}") for team in TEAMS]
        for space in self.spaces:
            cluster.api.create(project(space, NODES * GPUS // len(TEAMS)))
        self.done: Counter[str] = Counter()
        self._numbers = count(1)
        self._down: set[str] = set()

    def turn(self) -> None:
        """Something happens."""
        acts = {
            self._job: 6,
            self._gang: 4,
            self._delete: 2,
            self._end_pod: 2,
            self._flap: 1,
            self._faults: 1,
            self._cut: 1,
        }
        act = self.chance.choices(list(acts), list(acts.values()))[0]
        act()
        self.done[act.__name__] += 1

    def settle(self) -> None:
        """Nodes are up and nothing fails any more."""
        self.proxy.calm()
        for name in list(self._down):
            set_down(self.cluster.api, name, down=False)
            self._down.discard(name)

    def jobs(self) -> list[dict]:
        return self.cluster.api.items("/apis/batch/v1/jobs")

    def unfinished(self) -> list[str]:
        """Jobs that aren't complete though they have pods: without, their controller waits before it makes another."""
        with_pods = {
            (pod["metadata"]["namespace"], pod["metadata"]["labels"].get("job-name"))
            for pod in self.cluster.pods()
        }
        return [
            f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in self.jobs()
            if not any(said["type"] == "Complete" for said in one["status"].get("conditions", []))
            and (one["metadata"]["namespace"], one["metadata"]["name"]) in with_pods
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
        if len(waiting) < 40:
            made["spec"]["podFailurePolicy"] = _EVICTIONS_ARE_NO_FAILURE
            self.cluster.api.create(made)

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
        self.proxy.faults = self.chance.choice(FAULTS)

    def _cut(self) -> None:
        self.proxy.cut()


_ENDLESS = {"retries": 100_000, "grace_s": 3}
_EVICTIONS_ARE_NO_FAILURE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
"""Without it the Job's controller waits 10 s, 20 s, 40 s and so on before it makes another pod."""


@pytest.fixture
def audit(cluster: Cluster) -> Iterator[Audit]:
    watching = Audit(cluster.plane, {f"gpu-{at:04d}": GPUS for at in range(NODES)})
    yield watching
    watching.close()


def test_nothing_is_bound_twice_left_in_part_or_left_behind(
    cluster: Cluster, proxy: FaultProxy, audit: Audit
) -> None:
    install_kinds(cluster.api)
    churn = Churn(cluster, proxy, SEED)
    with Weir(cluster.plane, proxy.kubeconfig, name="weir-churn", arguments=["--alone"]) as weir:
        _go_through(churn, weir, audit)
        memory = _go_on(churn, weir, audit)
        churn.settle()
        cluster.until(
            lambda: weir.check() or audit.wrong or not churn.unfinished(),
            SETTLED_S,
            lambda: stuck(cluster, churn),
        )
        report = (
            f"seed {SEED}: {dict(churn.done)}, faults {dict(proxy.injected)}, starts {weir.starts}, "
            f"bound {audit.bound}, a gang in part {audit.longest_partial_s():.1f} s, MiB {memory}"
        )
        assert not audit.wrong, f"{report}\n" + "\n\n".join(audit.wrong[:5])
        assert audit.longest_partial_s() < GANG_PART_S, report
        half = len(memory) // 2
        assert max(memory[half:]) < max(memory[:half]) + MEMORY_MORE_MIB, report
        for space in churn.spaces:
            cluster.api.delete(f"/apis/batch/v1/namespaces/{space}/jobs")
        cluster.until(lambda: not audit.pods and not left_behind(cluster), 60, "nothing to be left behind")
        weir.check()
    print(report)


def _go_through(churn: Churn, weir: Weir, audit: Audit) -> None:
    """Weir is killed and started again, early or when it has worked for a while."""
    end_s = time.monotonic() + CHURN_S
    while time.monotonic() < end_s and not audit.wrong:
        begun = weir.said().count("synced")
        early = churn.chance.random() < KILLED_AT_ONCE
        dies_s = time.monotonic() + churn.chance.uniform(0.0, 3.0) if early else end_s + SETTLED_S
        lives_s = churn.chance.uniform(*LIVES_S)
        while time.monotonic() < dies_s:
            weir.check()
            churn.turn()
            time.sleep(churn.chance.uniform(0.05, 0.3))
            if not early and weir.said().count("synced") > begun:
                early, dies_s = True, time.monotonic() + lives_s
        weir.kill()
        weir.start()


def _go_on(churn: Churn, weir: Weir, audit: Audit) -> list[int]:
    """The same without an end of Weir; its memory once a second."""
    memory: list[int] = []
    end_s = time.monotonic() + CHURN_S
    while time.monotonic() < end_s and not audit.wrong:
        churn.turn()
        time.sleep(churn.chance.uniform(0.05, 0.3))
        weir.check()
        if time.monotonic() > end_s - CHURN_S + len(memory):
            memory.append(round(weir.memory_mib()))
    return memory


def stuck(cluster: Cluster, churn: Churn) -> str:
    """What keeps Jobs from completing, as far as anybody says."""
    said = [f"the Jobs of seed {SEED} to complete"]
    for name in churn.unfinished():
        within, _, job_name = name.partition("/")
        path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/job-{job_name}"
        status = (cluster.api.maybe(path) or {}).get("status")
        pods = [
            (
                pod["metadata"]["name"],
                pod["spec"].get("nodeName"),
                pod["status"].get("phase"),
                pod["metadata"].get("deletionTimestamp"),
            )
            for pod in cluster.pods(within, f"job-name={job_name}")
        ]
        said.append(f"{name}: {pods} {status}")
    return "\n".join(said)


def left_behind(cluster: Cluster) -> list[str]:
    """Weir's objects about work that is gone."""
    return [one["metadata"]["name"] for one in cluster.api.items("/apis/weir.dev/v1alpha1/workloads")]
