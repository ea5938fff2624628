"""Work comes and goes, nodes flap, the way to the API server fails in every way, and Weir is killed all the while.

Another scheduler binds pods to the same nodes, the stock one those of a DaemonSet, and kubelets report static
pods. WEIR_EFFORT makes it longer: 1 is six seconds of it and what follows, 100 ten minutes, 600 an hour;
WEIR_SEED makes it another.
"""

import os
import time
from collections.abc import Iterator

import pytest
from tests.kubernetes.audit import Audit
from tests.kubernetes.churn import GPUS, NODES, Churn
from tests.kubernetes.watch_progress import WatchProgress
from tools.controlplane.cluster import Cluster
from tools.controlplane.proxy import FaultProxy
from tools.controlplane.weir import Weir, install_kinds

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
SEED = int(os.environ.get("WEIR_SEED", "1"))
CHURN_S = 3 * EFFORT
LONG = 10  # from this effort on, everything that can happen does
LIVES_S = (0.5, 4.0)  # of one Weir, from when it begins to work until it is killed
KILLED_AT_ONCE = 0.2  # the part of them that doesn't get so far
SETTLED_S = 300.0
GANG_PART_S = 180.0  # a gang may be in part so long, at any load: it is bound, loses a pod, or is stopped
FAULTS_S = 600.0  # until every kind of fault has been injected at least once
MEMORY_MORE_MIB = 24  # in the second half of a life than in the first


@pytest.fixture
def reported(proxy: FaultProxy) -> WatchProgress:
    found = proxy.tap = WatchProgress()
    return found


@pytest.fixture
def audit(cluster: Cluster, reported: WatchProgress) -> Iterator[Audit]:
    cluster.plane.start_scheduler()
    watching = Audit(cluster.plane, {f"gpu-{at:04d}": GPUS for at in range(NODES)}, reported)
    yield watching
    watching.close()
    cluster.plane.kill("kube-scheduler")


def test_nothing_is_bound_twice_left_in_part_or_left_behind(
    cluster: Cluster, proxy: FaultProxy, audit: Audit
) -> None:
    install_kinds(cluster.api)
    churn = Churn(cluster, proxy, SEED)
    with Weir(cluster.plane, proxy.kubeconfig, name="weir-churn", arguments=["--no-leader-election"]) as weir:
        _go_through(churn, weir, audit)
        memory = _go_on(churn, weir, audit)
        print(
            f"seed {SEED}: {dict(churn.done)}, faults {dict(proxy.injected)}, kills {weir.starts - 1}, "
            f"pods {dict(audit.counts)}, a gang in part {audit.longest_partial_s():.1f} s, MiB {memory}"
        )
        churn.settle()
        settles_s = time.monotonic()
        cluster.until(
            lambda: weir.check() or audit.wrong or not churn.unfinished(),
            lambda: stuck(cluster, churn),
        )
        print(f"settled in {time.monotonic() - settles_s:.0f} s")
        assert not audit.wrong, "\n\n".join(audit.wrong[:5])
        assert not churn.missing
        assert audit.counts["beside theirs"], "Weir never came to where others' pods are"
        for owner in ("person", "DaemonSet", "Node") if EFFORT >= LONG else ():
            assert audit.counts[f"beside pods of a {owner}"], "Weir never came to where these pods are"
        assert audit.longest_partial_s() < GANG_PART_S
        if EFFORT >= LONG:  # a short life is spent on reading all there is
            half = len(memory) // 2
            assert max(memory[half:]) < max(memory[:half]) + MEMORY_MORE_MIB
        churn.end()
        cluster.until(lambda: not audit.pods and not left_behind(cluster), "nothing to be left behind")
        weir.check()


def _go_through(churn: Churn, weir: Weir, audit: Audit) -> None:
    """Weir is killed and started again, early or when it has worked for a while."""
    end_s = time.monotonic() + CHURN_S
    while time.monotonic() < end_s and not audit.wrong:
        begun = weir.log_text().count("synced")
        early = churn.chance.random() < KILLED_AT_ONCE
        dies_s = time.monotonic() + churn.chance.uniform(0.0, 3.0) if early else end_s + SETTLED_S
        lives_s = churn.chance.uniform(*LIVES_S)
        while time.monotonic() < dies_s:
            _turn(churn, weir)
            if not early and weir.log_text().count("synced") > begun:
                early, dies_s = True, time.monotonic() + lives_s
        weir.kill()
        churn.proxy.forget()
        audit.progress.restart()
        weir.start()


def _go_on(churn: Churn, weir: Weir, audit: Audit) -> list[int]:
    """The same without an end of Weir, until there was all that the test looks at; its memory once a second."""
    synced, ready_s = weir.log_text().count("synced"), time.monotonic() + SETTLED_S
    while weir.log_text().count("synced") == synced and not audit.wrong:
        assert time.monotonic() < ready_s, "it doesn't come to work"
        _turn(churn, weir)
    memory: list[int] = []
    begun_s = time.monotonic()
    end_s = begun_s + CHURN_S
    while not audit.wrong and (
        time.monotonic() < end_s or churn.missing or len(memory) < 2 or not audit.counts["beside theirs"]
    ):
        lacks = (
            f"no faults of the kinds {sorted(churn.missing)}, {audit.counts['beside theirs']} beside theirs"
        )
        assert time.monotonic() < end_s + FAULTS_S, lacks
        _turn(churn, weir)
        if time.monotonic() > begun_s + len(memory):
            memory.append(round(weir.memory_mib()))
    return memory


def _turn(churn: Churn, weir: Weir) -> None:
    weir.check()
    churn.turn()
    time.sleep(churn.chance.uniform(0.05, 0.2))


def stuck(cluster: Cluster, churn: Churn) -> str:
    """Return the known reasons that keep Jobs from completing."""
    answer = [f"the Jobs of seed {SEED} to complete"]
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
        answer.append(f"{name}: {pods} {status}")
    return "\n".join(answer)


def left_behind(cluster: Cluster) -> list[str]:
    """Weir's objects about work that is gone."""
    return [one["metadata"]["name"] for one in cluster.api.items("/apis/weir.dev/v1alpha1/workloads")]
