"""Workloads whose owner fails when a pod is evicted: the owner is suspended, and resumed without pods."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.kubernetes.deliveries import deliver
from tests.unit.kubernetes.state.owners.pod_groups import gang_of, group

from weir.control.loop import Control
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import Metadata, PodSchedulingGroup
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import WRITTEN_KEY, OwnerFields, WorkloadObject, WorkloadSpec
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.writes.operations import (
    Bind,
    Evict,
    PatchStatus,
    SuspendOwner,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteUnknown,
)
from weir.model.policy import Policy
from weir.state.jobs import Phase

from .small_world import KINDS, job, maker, node, pod, project, reference

NAME = "team/mpijob-mpi"
PATH = "/apis/kubeflow.org/v1/namespaces/team/mpijobs/mpi"
ROLE = "training.kubeflow.org/replica-type"
PODS = ("launcher", "worker-0", "worker-1")


def mpi(*, suspend: bool = False, marked: bool = False) -> dict[str, Any]:
    spec = {
        "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}},
        "runPolicy": {"suspend": suspend},
    }
    made = maker("MPIJob", "kubeflow.org/v1", "mpi", "m1", spec)
    if marked:
        made["metadata"]["annotations"] = {"weir.dev/restarts": "m1 weir"}
    return made


class Site:
    """A node with four GPUs that an MPIJob over quota fills, and the writes of a Weir beside it."""

    def __init__(self, owner: dict[str, Any], *workloads: WorkloadObject) -> None:
        self.now_s = 1000.0
        self.writes: list[Any] = []
        state = ClusterState(KINDS, DeviceResources())
        self.backend = KubernetesBackend(state, self.writes.extend, lambda: None, lambda: self.now_s)
        self.hear("owners", owner)
        self.hear("workloads", *workloads)
        self.control: Control = ClusterControlHooks(self.backend, Policy(), lambda: self.now_s).connect()
        self.hear("nodes", node("n1"))
        self.hear("projects", project("team", gpus=0), project("owner", gpus=4))

    def hear(self, resource: str, *objects: Any) -> None:
        deliver(self.backend, resource, *objects)

    def step(self, after_s: float = 0.1) -> list[Any]:
        """Return the writes of a step, and of the texts for people after it."""
        self.now_s += after_s
        self.writes.clear()
        self.control.step()
        self.backend.tell_people(self.now_s)
        for each in self.writes:
            if isinstance(each, Bind):
                self.backend.take_outcome(each, WriteDone())
        return list(self.writes)

    def has_pods(self, *, on: str = "", again: int = 1) -> None:
        for at, name in enumerate(PODS):
            role = {ROLE: name.partition("-")[0]}
            gpus = 2 if at else 0
            devices = ("", "0,1", "2,3")[at]
            where = {"on": on, "start": again, "devices": devices} if on else {}
            made = pod(name, owner=reference(mpi()), gpus=gpus, labels=role, uid=f"{name}-{again}", **where)  # type: ignore[arg-type]
            self.hear("pods", made)

    def end_pods(self) -> None:
        """Have all pods fail, as a kubelet says before they go."""
        for name in PODS:
            role = {ROLE: name.partition("-")[0]}
            gpus = 2 if name != "launcher" else 0
            ended = pod(
                name, owner=reference(mpi()), gpus=gpus, labels=role, uid=f"{name}-1", on="n1", phase="Failed",
                deleting=True,
            )  # fmt: skip
            self.hear("pods", ended)

    def lose_pods(self, again: int = 1) -> None:
        self.backend.deliver("pods")([ObjectRemoved(f"team/{name}", f"{name}-{again}") for name in PODS])

    def reclaim(self) -> list[Any]:
        """Return the writes after the owner of the quota asks for all GPUs."""
        self.hear("owners", job("back", "j1", namespace="owner"))
        self.hear("pods", pod("back-0", owner=("back", "j1"), namespace="owner", gpus=4))
        return self.step()

    def why(self) -> str:
        state = self.control.cluster.jobs[NAME]
        return state.held_why if state.held else ""


def suspensions(writes: list[Any]) -> list[SuspendOwner]:
    return [each for each in writes if isinstance(each, SuspendOwner)]


def evicted(writes: list[Any]) -> set[str]:
    return {each.name for each in writes if isinstance(each, Evict)}


@pytest.fixture
def site() -> Site:
    made = Site(mpi())
    made.has_pods()
    assert {each.name for each in made.step() if isinstance(each, Bind)} == set(PODS)
    made.has_pods(on="n1")
    made.step()
    return made


def test_its_owner_is_suspended_in_place_of_evictions_and_resumed_without_pods(site: Site) -> None:
    writes = site.reclaim()
    (order,) = suspensions(writes)
    assert (order.path, evicted(writes)) == (PATH, set())
    assert order.patch == {
        "metadata": {"uid": "m1", "annotations": {"weir.dev/restarts": "m1 weir"}},
        "spec": {"runPolicy": {"suspend": True}},
    }
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    assert not suspensions(site.step())  # its pods are still there
    site.end_pods()
    assert not suspensions(site.step())  # a controller counts those that failed
    site.lose_pods()
    (resumed,) = suspensions(site.step())
    assert resumed.patch == {
        "metadata": {"uid": "m1", "annotations": {"weir.dev/restarts": None}},
        "spec": {"runPolicy": {"suspend": False}},
    }
    assert site.why() == "It was stopped. Weir resumes its MPIJob once its pods are gone."
    assert not suspensions(site.step(1.0))  # once is enough
    site.backend.take_outcome(resumed, WriteDone())
    site.hear("owners", mpi())
    site.has_pods(again=2)
    site.step()
    assert site.why() == ""
    assert {pod.phase for pods in site.control.cluster.jobs[NAME].pods for pod in pods} == {Phase.PENDING}


def test_weir_that_starts_resumes_what_another_has_suspended() -> None:
    owner = OwnerFields("m1", "kubeflow.org/v1", "MPIJob", "mpi")
    metadata = Metadata("mpijob-mpi", namespace="team", annotations={WRITTEN_KEY: "as it is"})
    known = WorkloadObject(metadata, WorkloadSpec(owner=owner, project="team"))
    site = Site(mpi(suspend=True, marked=True), known)
    (resumed,) = suspensions([*site.writes, *site.step(), *site.step(1.0)])
    assert resumed.path == PATH
    assert not resumed.suspends


def test_an_owner_that_others_resume_with_its_pods_has_them_evicted(site: Site) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    site.step()
    site.hear("owners", mpi(marked=True))
    writes = [each for after_s in (0.1, *(4 * [31.0])) for each in site.step(after_s)]
    assert evicted(writes) == set(PODS)
    assert suspensions(writes)
    assert all(not each.suspends for each in suspensions(writes))  # the mark is removed


def test_pods_that_its_controller_leaves_are_evicted(site: Site) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    writes = [each for _ in range(4) for each in site.step(31.0)]
    assert evicted(writes) == set(PODS)
    assert not suspensions(writes)


def test_an_unknown_outcome_is_no_refusal_for_good(site: Site) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteUnknown("The connection broke."))
    writes = [each for _ in range(4) for each in site.step(31.0)]
    assert evicted(writes) == set()
    assert [each.suspends for each in suspensions(writes)] == [True]


def test_an_owner_that_a_person_has_suspended_gets_no_mark(site: Site) -> None:
    site.hear("owners", mpi(suspend=True))
    site.step()
    writes = site.reclaim()
    assert not suspensions(writes)
    assert evicted(writes) == set(PODS)


def test_pods_that_come_before_the_mark_is_gone_are_placed() -> None:
    site = Site(mpi(marked=True))
    site.has_pods()
    assert {each.name for each in site.step() if isinstance(each, Bind)} == set(PODS)


def test_a_copied_mark_says_nothing(site: Site) -> None:
    copied = mpi(suspend=True)
    copied["metadata"]["annotations"] = {"weir.dev/restarts": "another weir"}
    site.hear("owners", copied)
    site.lose_pods()
    assert not suspensions([*site.step(), *site.step(60.0)])
    assert site.why().startswith("It is suspended: spec.runPolicy.suspend of MPIJob mpi is true")
    change = '{"spec": {"runPolicy": {"suspend": false}}}'
    command = f"kubectl patch -n team mpijob.kubeflow.org mpi --type merge --patch '{change}'"
    assert f"Once `{command}` resumes it, it enters the queue of team." in site.why()


def test_an_order_for_work_that_needs_it_no_more_isnt_sent(site: Site) -> None:
    (order,) = suspensions(site.reclaim())
    assert site.backend.check(order) == ""
    site.backend.deliver("pods")([ObjectRemoved("owner/back-0", "u-back-0")])
    site.backend.deliver_owners()([ObjectRemoved("owner/back", "j1")])
    site.step()
    assert site.backend.check(order) == "owner/job-back doesn't need the capacity any more."


def test_a_workload_that_was_forgotten_meanwhile_is_resumed_when_its_owner_can_be_read() -> None:
    metadata = Metadata("mpijob-mpi", namespace="team", annotations={WRITTEN_KEY: "as it is"})
    owner = OwnerFields("m1", "kubeflow.org/v1", "MPIJob", "mpi")
    known = WorkloadObject(metadata, WorkloadSpec(owner=owner, project="team"))
    site = Site(job("other", "j9"), known)
    site.backend.unreadable(
        {("kubeflow.org", "MPIJob"): "the list of all MPIJob objects failed"}, frozenset()
    )
    for _ in range(3):
        assert not suspensions(site.step(61.0))
    site.hear("owners", mpi(suspend=True, marked=True))
    assert len(suspensions(site.step())) == 1


def test_a_person_who_suspends_it_isnt_overruled(site: Site) -> None:
    site.hear("owners", mpi(suspend=True))
    site.lose_pods()
    assert not suspensions(site.step())
    assert not suspensions(site.step(120.0))
    assert site.why().startswith("It is suspended: spec.runPolicy.suspend of MPIJob mpi is true")


@pytest.mark.parametrize("is_late", [True, False], ids=["without effect", "refused"])
def test_its_pods_are_evicted_where_it_cant_be_suspended(site: Site, is_late: bool) -> None:
    (order,) = suspensions(site.reclaim())
    outcome = WriteDone() if is_late else WriteRefused(403, "mpijobs is forbidden: no patch.")
    site.backend.take_outcome(order, outcome)
    assert not suspensions(site.step())
    writes = [each for _ in range(4) for each in site.step(31.0)]
    assert evicted(writes) == set(PODS)
    assert not suspensions(writes)


def test_new_pods_of_an_owner_that_couldnt_be_suspended_are_stopped_by_its_suspension_again(
    site: Site,
) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteRefused(403, "mpijobs is forbidden: no patch."))
    assert evicted([each for _ in range(4) for each in site.step(31.0)]) == set(PODS)
    site.backend.deliver("pods")([ObjectRemoved("owner/back-0", "u-back-0")])
    site.lose_pods()
    site.step()
    site.has_pods(again=2)
    assert {each.name for each in site.step() if isinstance(each, Bind)} == set(PODS)
    site.has_pods(on="n1", again=2)
    site.step()
    assert len(suspensions(site.reclaim())) == 1


@pytest.mark.parametrize(
    "fails", [lambda: WriteNotSent("This replica no longer leads."), lambda: WriteRefused(429, "Too many.")]
)
def test_a_suspension_that_wasnt_sent_lets_the_pods_run_on_and_is_ordered_again(
    site: Site, fails: Callable[[], Any]
) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, fails())
    writes = [each for after_s in (0.1, 31.0, 31.0) for each in site.step(after_s)]
    assert evicted(writes) == set()
    assert len(suspensions(writes)) == 1


@pytest.mark.parametrize(
    "fails", [lambda: WriteNotSent("Not leading."), lambda: WriteRefused(409, "Conflict.")]
)
def test_a_resumption_that_fails_is_tried_again(site: Site, fails: Callable[[], Any]) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    site.lose_pods()
    (resumed,) = suspensions(site.step())
    site.backend.take_outcome(resumed, fails())
    assert not suspensions(site.step())
    (again,) = suspensions(site.step(31.0))
    assert again.patch == resumed.patch


def test_the_workload_isnt_shown_as_suspended(site: Site) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    site.lose_pods()
    statuses = [
        each.patch["status"]
        for writes in (site.step(), site.step(2.0))
        for each in writes
        if isinstance(each, PatchStatus) and each.path.endswith("/mpijob-mpi/status")
    ]
    assert not any(status.get("suspended") for status in statuses)  # type: ignore[attr-defined]


def test_an_owner_whose_pods_are_a_pod_group_is_resumed() -> None:
    site = Site(mpi())
    site.hear("podgroups", group(spec=gang_of(3)))

    def members(**where: Any) -> None:
        for name in PODS:
            made = pod(name, owner=reference(mpi()), labels={ROLE: name.partition("-")[0]}, **where)
            made.spec.scheduling_group = PodSchedulingGroup("train")
            site.hear("pods", made)

    members()
    assert {each.name for each in site.step() if isinstance(each, Bind)} == set(PODS)
    members(on="n1", start=1)
    site.step()
    (order,) = suspensions(site.reclaim())
    assert order.path == PATH
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    assert not suspensions(site.step())
    site.backend.deliver("pods")([ObjectRemoved(f"team/{name}", f"u-{name}") for name in PODS])
    (resumed,) = suspensions(site.step())
    assert (resumed.path, resumed.suspends) == (PATH, False)


def test_an_owner_is_resumed_though_a_job_below_it_keeps_failed_pods(site: Site) -> None:
    """The launcher of an MPIJob of the MPI operator is a Job, and a suspended Job keeps its failed tries."""
    launcher = maker("Job", "batch/v1", "mpi-launcher", "l1", {"completions": 1}, above=reference(mpi()))
    site.hear("owners", launcher)
    labels = {ROLE: "launcher"}
    failed = pod("try", owner=reference(launcher), gpus=0, labels=labels, on="n1", phase="Failed")
    site.hear("pods", failed)
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    assert not suspensions(site.step())
    site.lose_pods()
    (resumed,) = suspensions([*site.step(), *site.step(1.0)])
    assert not resumed.suspends


def test_pods_that_come_before_refused_ones_are_gone_are_stopped_by_a_suspension(site: Site) -> None:
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteRefused(403, "mpijobs is forbidden: no patch."))
    assert evicted([each for _ in range(4) for each in site.step(31.0)]) == set(PODS)

    def hear_later(**where: Any) -> None:
        for at, name in enumerate(PODS):
            on = {**where, "devices": ("", "0,1", "2,3")[at]} if where else {}
            labels = {ROLE: name.partition("-")[0]}
            made = pod(f"later-{name}", owner=reference(mpi()), gpus=2 if at else 0, labels=labels, **on)
            site.hear("pods", made)

    hear_later()
    site.step()
    site.lose_pods()
    site.backend.deliver("pods")([ObjectRemoved("owner/back-0", "u-back-0")])
    assert len([each for each in site.step(31.0) if isinstance(each, Bind)]) == len(PODS)
    hear_later(on="n1", start=9)
    site.step()
    writes = site.reclaim()
    assert (len(suspensions(writes)), evicted(writes)) == (1, set())
