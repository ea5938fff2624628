"""A JobSet that is deleted above its Jobs, as the real garbage collector does it: its pods stay one workload."""

import time
from collections.abc import Callable, Iterator

import pytest
from tests.kubernetes.constraints import a_team, scheduling
from tests.kubernetes.gang_kinds import JOBSET_ROLE, Makers, template
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tests.kubernetes.test_installed import workloads
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir

from weir.kubernetes.api.object_numbers import workload_number
from weir.kubernetes.writes.statuses.passing_phases import OWNER_S

JOBSET = ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
SLOW = "example.com/slow"


@pytest.fixture
def weir(plane: ControlPlane) -> Iterator[Weir]:
    plane.api.apply(definition(*JOBSET))
    there = Cluster(plane)
    there.until(lambda: "JobSet" in kinds(plane), subject="the kind to be served")
    try:
        with scheduling(plane, "weir-owner-levels") as running:
            yield running
    finally:
        remove_definitions(there, [f"{JOBSET[3]}.{JOBSET[0]}"])


def kinds(plane: ControlPlane) -> set[str]:
    found = plane.api.maybe(f"/apis/{JOBSET[0]}/{JOBSET[1]}") or {}
    return {each["kind"] for each in found.get("resources", ())}


@pytest.fixture
def slow_pods(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Return a function that lets the slow pods go; they go at the end in any case."""

    def let_go() -> None:
        for each in cluster.pods():
            if SLOW in each["metadata"].get("finalizers", ()):
                meta = each["metadata"]
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                left = [name for name in meta["finalizers"] if name != SLOW]
                cluster.api.patch(path, {"metadata": {"finalizers": left}})

    yield let_go
    let_go()


def stays(look: Callable[[], bool]) -> None:
    """Look for longer than Weir waits for the owners of a pod before it writes a Workload."""
    until_s = time.monotonic() + OWNER_S + 5.0
    while time.monotonic() < until_s:
        look()
        time.sleep(0.2)


def test_a_deleted_job_set_is_one_workload_until_its_slow_pods_are_gone(
    weir: Weir, cluster: Cluster, slow_pods: Callable[[], None]
) -> None:
    cluster.add([node("n1", gpus=8)])
    with a_team(weir, cluster) as team:
        within, makers = team.namespace, Makers(cluster, team.namespace)
        spec = {"replicatedJobs": [{"name": "work", "replicas": 2, "template": {"spec": {"parallelism": 1}}}]}
        top = makers.make("JobSet", "train", spec, annotations={"weir.dev/user": "ann"})
        for at in range(2):
            slow = template(1, {JOBSET_ROLE: "work"})
            slow["metadata"]["finalizers"] = [SLOW]
            slow["spec"]["schedulerName"] = "weir"
            words = {"parallelism": 1, "completions": 1, "completionMode": "Indexed", "template": slow}
            makers.make("Job", f"train-work-{at}", words, top)
        cluster.until(lambda: len(cluster.running(within)) == 2, "the pods to run")
        uid = top["metadata"]["uid"]
        number = workload_number(within, uid)
        seen: dict[str, tuple[int, str]] = {}

        def look() -> bool:
            """Note each Workload with its number and its user."""
            for name, found in workloads(cluster, within).items():
                stated = found["spec"]
                seen[name] = workload_number(within, stated["owner"]["uid"]), stated.get("user", "")
            return True

        cluster.until(lambda: look() and seen, "the workload")
        assert seen == {"jobset-train": (number, "ann")}
        jobs = f"/apis/batch/v1/namespaces/{within}/jobs"
        path = f"/apis/{JOBSET[0]}/{JOBSET[1]}/namespaces/{within}/jobsets/train"
        cluster.api.delete(path, propagation="Background")
        cluster.until(lambda: look() and not cluster.api.items(jobs), "the Jobs to be collected")
        cluster.until(
            lambda: sum("deletionTimestamp" in each["metadata"] for each in cluster.pods(within)) == 2,
            "both pods to be collected, too",
        )
        stays(look)
        weir.stop()
        weir.start()
        team.lands("after-the-restart", 0)
        stays(look)
        seen.pop("pod-after-the-restart", None)
        assert seen == {"jobset-train": (number, "ann")}
        slow_pods()
        cluster.until(lambda: look() and not cluster.pods(within, JOBSET_ROLE), "the pods to be gone")
        seen.pop("pod-after-the-restart", None)
        assert seen == {"jobset-train": (number, "ann")}
