"""Every kind of the table as its controller makes it: the webhooks on, `schedulerName` unset, installed after Weir.

Real controllers make the pods of Jobs and StatefulSets. In place of those of the other kinds the tests make
objects of the same form: the same chain of owners, the same labels, the same pods without GPUs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from tests.kubernetes.gang_kinds import CASES, CUSTOM_KINDS, KNATIVE_CHAIN, MPI_ROLE, Makers, template
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import nodes
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project

from weir.kubernetes.translate.kinds import load_kinds

WORKLOADS = "/apis/weir.dev/v1alpha1/namespaces/{}/workloads"


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Installed]:
    """Weir as installed, in front of a cluster that has none of the custom kinds yet."""
    with Installed(plane, namespace="weir-members", name="members") as running:
        try:
            running.wait_ready()
            yield running
        finally:
            there = Cluster(plane)
            remove_definitions(
                there,
                [f"{plural}.{version.partition('/')[0]}" for version, plural in CUSTOM_KINDS.values()],
            )
            there.empty()


@pytest.fixture(scope="module")
def namespaces(plane: ControlPlane, weir: Installed) -> Mapping[str, Makers]:
    """Define all kinds after Weir was started, and make one object of each with its pods at once."""
    cluster = Cluster(plane)
    cluster.add(nodes(6))
    made = {kind: Makers(cluster, cluster.namespace()) for kind in (*CASES, "odd")}
    plane.api.create(project("everyone", 64, [each.namespace for each in made.values()]))
    probe = made["odd"]
    cluster.until(lambda: _is_ours(probe), "the webhook to know the project")
    custom = {kind: (*api.split("/"), kind, plural) for kind, (api, plural) in CUSTOM_KINDS.items()}
    plane.api.apply(*(definition(*each) for each in custom.values()))
    cluster.until(lambda: all(_is_served(plane, *each) for each in custom.values()), "the kinds")
    for kind in custom:
        cluster.until(lambda kind=kind: _is_watched(probe, kind), f"Weir to watch {kind}")
    for kind, case in CASES.items():
        case.make(made[kind])
    return made


def _is_ours(probe: Makers) -> bool:
    made = probe.pod("probe", 1, {}, None)
    probe.cluster.api.delete(f"/api/v1/namespaces/{probe.namespace}/pods/probe", grace_s=0)
    return bool(made["spec"]["schedulerName"] == "weir")


def _is_watched(probe: Makers, kind: str) -> bool:
    """Return True if the webhook knows an object of this kind: it waits two seconds for a watch of a new one."""
    owner = probe.make(kind, "probe", {"template": template(1, {})})
    made = probe.pod("probe", 0, {}, owner)
    api_version, plural = CUSTOM_KINDS[kind]
    inside = f"namespaces/{probe.namespace}"
    probe.cluster.api.delete(f"/api/v1/{inside}/pods/probe", grace_s=0)
    probe.cluster.api.delete(f"/apis/{api_version}/{inside}/{plural}/probe")
    return bool(made["spec"]["schedulerName"] == "weir")


def _is_served(plane: ControlPlane, group: str, version: str, _kind: str, plural: str) -> bool:
    with suppress(ApiError):
        plane.api.items(f"/apis/{group}/{version}/{plural}")
        return True
    return False


def reported(it: Makers) -> dict[str, Any]:
    """The status of each workload of a namespace, by its name."""
    found = it.cluster.api.items(WORKLOADS.format(it.namespace))
    return {each["metadata"]["name"]: each.get("status") or {} for each in found}


def runs(it: Makers, pods: int) -> Callable[[], str]:
    """Return a check that names the problem while a namespace's pods don't all run."""

    def say() -> str:
        states = [
            (each["metadata"]["name"], each["spec"]["schedulerName"], each["status"].get("phase"))
            for each in it.cluster.pods(it.namespace)
        ]
        return f"{pods} pods to run; pods: {states}; workloads: {reported(it)}"

    return say


@pytest.mark.parametrize("kind", CASES)
def test_a_gang_with_pods_without_gpus_runs_whole(
    weir: Installed, namespaces: Mapping[str, Makers], kind: str
) -> None:
    it, case = namespaces[kind], CASES[kind]
    it.cluster.until(lambda: len(it.cluster.running(it.namespace)) == case.pods, runs(it, case.pods))
    assert {each["spec"]["schedulerName"] for each in it.cluster.pods(it.namespace)} == {"weir"}
    it.cluster.until(
        lambda: {name: status.get("gpus") for name, status in reported(it).items()} == case.gpus,
        lambda: f"{case.gpus}: {reported(it)}",
    )
    weir.check()
    it.cluster.until(
        lambda: all(len(set(each["running"].split("/"))) == 1 for each in reported(it).values()),
        lambda: f"as many to run as there are: {reported(it)}",
    )


def test_every_kind_of_the_table_is_tried() -> None:
    in_other_cases = {"Pod", "DaemonSet", *KNATIVE_CHAIN[1:]}
    assert {rule.kind for rule in load_kinds().rules} - in_other_cases == CASES.keys()


def test_pods_without_gpus_of_owners_without_gpus_stay_where_they_are(
    weir: Installed, namespaces: Mapping[str, Makers]
) -> None:
    it = namespaces["odd"]
    specs = {"Launcher": {"replicas": 1, "template": template(0, {})}}
    owner = it.make("MPIJob", "cpus", {"mpiReplicaSpecs": specs})
    for name, above in (("of-mpi", owner), ("of-job", it.job("cpus", 0, {}, owner))):
        assert it.pod(name, 0, {}, above)["spec"]["schedulerName"] == "default-scheduler"
    weir.check()


@pytest.mark.parametrize("kind", ["MPIJob", "JobSet", "TrainJob"])
def test_an_eviction_of_a_member_is_no_failure_of_its_job(
    weir: Installed, namespaces: Mapping[str, Makers], kind: str
) -> None:
    it = namespaces[kind]
    jobs = it.cluster.api.items(f"/apis/batch/v1/namespaces/{it.namespace}/jobs")
    policies = [str(each["spec"].get("podFailurePolicy")) for each in jobs]
    assert policies
    assert all("DisruptionTarget" in each for each in policies), policies
    weir.check()


def test_a_member_that_another_scheduler_placed_is_there(
    weir: Installed, namespaces: Mapping[str, Makers]
) -> None:
    it = namespaces["odd"]
    specs = {"Launcher": {"replicas": 1, "template": template(0, {})}}
    specs["Worker"] = {"replicas": 2, "template": template(1, {})}
    owner = it.make("MPIJob", "mixed", {"mpiReplicaSpecs": specs})
    for at in range(2):
        it.pod(f"mixed-worker-{at}", 1, {MPI_ROLE: "worker"}, owner)
    answer = "2 of 3 pods"

    def reason() -> str:
        return str((reported(it).get("mpijob-mixed", {}).get("reason") or {}).get("sentence", ""))

    it.cluster.until(lambda: answer in reason(), lambda: f"{answer!r}, not {reason()!r}")
    it.pod("mixed-launcher", 0, {MPI_ROLE: "launcher"}, owner, schedulerName="another")
    waits = "mixed-launcher: It waits for the scheduler another."
    it.cluster.until(lambda: waits in reason(), lambda: f"{waits!r}, not {reason()!r}")
    assert reported(it)["mpijob-mixed"]["gpus"] == "2"
    bind = {
        "target": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": it.cluster.api.items("/api/v1/nodes")[0]["metadata"]["name"],
        },
        "metadata": {"name": "mixed-launcher"},
        "apiVersion": "v1",
        "kind": "Binding",
    }
    it.cluster.api.post(f"/api/v1/namespaces/{it.namespace}/pods/mixed-launcher/binding", bind)
    wanted = {"mixed-worker-0", "mixed-worker-1", "mixed-launcher"}
    it.cluster.until(lambda: wanted <= it.cluster.running(it.namespace).keys(), runs(it, 3))
    weir.check()
