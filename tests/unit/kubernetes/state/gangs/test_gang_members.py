"""Gangs as controllers make them: members of other schedulers, pods that own pods, owners that come late."""

import re
from itertools import permutations
from typing import Any, cast

import pytest
from tests.unit.kubernetes.small_world import WatchProgress, job, maker, node, pod, project, reference

from weir.kubernetes.api.objects import KubePod, OwnerReference
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.gangs.workload import workload_of
from weir.kubernetes.state.owners.pod_info import NAME_MAX, object_name
from weir.kubernetes.translate.kinds import GangKey
from weir.kubernetes.writes.operations import PatchStatus, UpsertWorkload
from weir.kubernetes.writes.statuses.statuses import StatusWriter

MPI_ROLE = "training.kubeflow.org/job-role"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
MPI = maker(
    "MPIJob",
    "kubeflow.org/v2beta1",
    "mpi",
    "m",
    {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}},
)
LAUNCHER_JOB = maker("Job", "batch/v1", "mpi-launcher", "mj", {}, above=reference(MPI))


def node_states() -> WatchProgress:
    reported = WatchProgress()
    reported.see("nodes", node("n1", 8), node("n2", 8))
    reported.see("projects", project("team", gpus=32))
    return reported


def launcher(**more: Any) -> KubePod:
    return pod("mpi-launcher", owner=reference(LAUNCHER_JOB), gpus=0, labels={MPI_ROLE: "launcher"}, **more)


def worker(at: int, **more: Any) -> KubePod:
    return pod(f"mpi-worker-{at}", owner=reference(MPI), gpus=8, labels={MPI_ROLE: "worker"}, **more)


def gang(reported: WatchProgress, name: str = "mpijob-mpi") -> Gang:
    return reported.cluster_state.registry.named[f"team/{name}"]


def why(reported: WatchProgress, name: str = "mpijob-mpi") -> str | None:
    return gang(reported, name).reported_gate


def numbers(reported: WatchProgress, name: str = "mpijob-mpi") -> tuple[str, str]:
    """GPUS and RUNNING, as people read them."""
    statuses, found = StatusWriter(reported.cluster_state, {}), gang(reported, name)
    reported.cluster_state.registry.changed[found] = None
    writes = [*statuses.take(reported.now_s), *statuses.take(reported.now_s + 20.0)]
    answer = [
        cast("dict[str, Any]", each.patch["status"])
        for each in writes
        if isinstance(each, PatchStatus) and each.about is found
    ]
    return answer[0]["gpus"], answer[0]["running"]


def test_a_member_that_another_scheduler_placed_counts_as_present() -> None:
    reported = node_states()
    reported.see("owners", MPI, LAUNCHER_JOB)
    reported.see("pods", worker(0), worker(1))
    reported.step()
    assert why(reported) == "2 of 3 pods exist."
    assert numbers(reported) == ("16", "0/3"), "a launcher that nobody knows yet isn't taken for a worker"
    reported.see("pods", launcher(scheduler="default-scheduler"))
    reported.step()
    assert why(reported) == (
        "2 of 3 pods are ready to be placed; mpi-launcher: It waits for the scheduler default-scheduler."
    )
    reported.see("pods", launcher(scheduler="default-scheduler", on="n1", phase="Running"))
    reported.step()
    assert why(reported) is None
    assert gang(reported).needed == 2
    assert workload_of(gang(reported), reported.cluster_state.node_states).min_pods == 2
    assert numbers(reported) == ("16", "1/3")
    reported.gone("pods", "team/mpi-launcher", "u-mpi-launcher")
    reported.step()
    assert why(reported) == "2 of 3 pods exist."


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_order_of_owners_and_members_does_not_matter(order: tuple[int, ...]) -> None:
    reported = node_states()
    placed = launcher(scheduler="default-scheduler", on="n1", phase="Running")
    arrivals: list[tuple[str, list[Any]]] = [
        ("owners", [MPI]),
        ("owners", [LAUNCHER_JOB]),
        ("pods", [placed]),
        ("pods", [worker(0), worker(1)]),
    ]
    for at in order:
        reported.see(arrivals[at][0], *arrivals[at][1])
        reported.step()
    assert set(reported.control.cluster.jobs) == {"team/mpijob-mpi"}
    assert why(reported) is None
    assert gang(reported).members.placed == {"launcher": 1}
    assert workload_of(gang(reported), reported.cluster_state.node_states).min_pods == 2


def test_a_member_of_another_scheduler_that_is_gone_is_waited_for() -> None:
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("owners", job("train", "j1", 2))
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    reported.see("pods", pod("train-1", owner=("train", "j1"), scheduler="other", on="n1"))
    reported.step()
    (found,) = reported.control.cluster.jobs.values()
    assert not found.held
    reported.gone("pods", "team/train-1", "u-train-1")
    reported.step()
    (found,) = reported.control.cluster.jobs.values()
    assert (found.held, found.held_why) == (True, "1 of 2 pods exists.")


def test_members_of_other_schedulers_are_known_after_control_restarts() -> None:
    reported = node_states()
    reported.see("owners", MPI, LAUNCHER_JOB)
    reported.see("pods", worker(0), worker(1), launcher(scheduler="other", on="n1", phase="Running"))
    reported.step()
    before = reported.state()
    reported.restart()
    assert reported.state() == before
    assert why(reported) is None


def test_a_member_that_has_ended_well_is_not_waited_for() -> None:
    reported = node_states()
    jobset = maker(
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        "js",
        "s",
        {"replicatedJobs": [{"name": "driver"}, {"name": "workers", "replicas": 2}]},
    )
    jobs = [maker("Job", "batch/v1", f"js-{at}", f"sj{at}", {}, above=reference(jobset)) for at in range(3)]
    role = "jobset.sigs.k8s.io/replicatedjob-name"
    reported.see("owners", jobset, *jobs)
    reported.see(
        "pods",
        *(pod(f"js-{at}", owner=reference(jobs[at]), labels={role: "workers"}) for at in (1, 2)),
        pod(
            "js-0",
            owner=reference(jobs[0]),
            gpus=0,
            labels={role: "driver"},
            scheduler="other",
            on="n1",
            phase="Succeeded",
        ),
    )
    reported.step()
    assert why(reported, "jobset-js") is None


def test_pods_of_another_namespace_are_no_members() -> None:
    """A reference to an owner may name anything: it counts in its own namespace alone."""
    reported = node_states()
    reported.see("owners", MPI, LAUNCHER_JOB)
    reported.see("pods", launcher(namespace="evil", scheduler="other", on="n1", phase="Running"))
    reported.see("pods", worker(0), worker(1))
    reported.step()
    assert why(reported) == "2 of 3 pods exist."


def _group(leader_scheduler: str) -> tuple[list[dict[str, Any]], list[KubePod]]:
    """A LeaderWorkerSet of one group: its leader owns the StatefulSet of its workers."""
    lws = maker(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        "serve",
        "l",
        {"leaderWorkerTemplate": {"size": 3}},
    )
    leaders = maker("StatefulSet", "apps/v1", "serve", "ls", {}, above=reference(lws))
    labels = {LWS_GROUP: "0"}
    on: dict[str, Any] = {} if leader_scheduler == "weir" else {"on": "n1", "phase": "Running"}
    leader = pod("serve-0", owner=reference(leaders), gpus=0, labels=labels, scheduler=leader_scheduler, **on)
    workers = maker("StatefulSet", "apps/v1", "serve-0", "ws", {}, above=reference(leader))
    below = [pod(f"serve-0-{at}", owner=reference(workers), gpus=4, labels=labels) for at in (1, 2)]
    return [lws, leaders, workers], [leader, *below]


@pytest.mark.parametrize("leader_scheduler", ["weir", "default-scheduler"])
def test_workers_below_the_pod_of_their_leader_are_of_its_group(leader_scheduler: str) -> None:
    for reverse in (False, True):
        reported = node_states()
        owners, pods = _group(leader_scheduler)
        for resource, made in (
            (("owners", owners), ("pods", pods))
            if not reverse
            else (("pods", pods[::-1]), ("owners", owners[::-1]))
        ):
            for each in made:
                reported.see(resource, each)
                reported.step()
        assert set(reported.control.cluster.jobs) == {"team/leaderworkerset-serve-0"}
        assert why(reported, "leaderworkerset-serve-0") is None


def test_executors_are_of_the_driver_that_made_them() -> None:
    reported = node_states()
    driver = pod(
        "driver",
        gpus=0,
        scheduler="default-scheduler",
        on="n1",
        phase="Running",
        labels={"spark-role": "driver"},
    )
    reported.see("pods", driver)
    reported.see(
        "pods",
        *(pod(f"exec-{at}", owner=reference(driver), labels={"spark-role": "executor"}) for at in range(2)),
    )
    reported.step()
    assert set(reported.control.cluster.jobs) == {"team/pod-driver"}
    assert why(reported, "pod-driver") is None
    reported.gone("pods", "team/driver", "u-driver")
    reported.step()
    assert why(reported, "pod-driver") == "Its Pod driver isn't there."


def test_a_circle_and_a_tower_of_owners_end() -> None:
    reported = node_states()
    one = OwnerReference("v1", "Pod", "b", "u-b", controller=True)
    other = OwnerReference("v1", "Pod", "a", "u-a", controller=True)
    reported.see("pods", pod("a", owner=one), pod("b", owner=other))
    reported.step()
    below = None
    for at in range(200):
        made = pod(f"t{at}", owner=below, scheduler="weir" if at % 2 else "other")
        reported.see("pods", made)
        below = reference(made)
    reported.step()
    assert reported.pods()


PYTORCH = maker(
    "PyTorchJob",
    "kubeflow.org/v1",
    "train",
    "t",
    {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}},
)
ROLE = "training.kubeflow.org/replica-type"


def _training() -> list[KubePod]:
    master = pod("master-0", owner=reference(PYTORCH), gpus=2, labels={ROLE: "master"})
    return [
        master,
        *(pod(f"worker-{at}", owner=reference(PYTORCH), gpus=2, labels={ROLE: "worker"}) for at in range(3)),
    ]


def test_a_kind_that_comes_after_its_pods_leaves_no_empty_group() -> None:
    reported = node_states()
    reported.cluster_state.resolver.set_unreadable({("kubeflow.org", "PyTorchJob"): "it is away"})
    reported.see("pods", *_training())
    reported.step()
    assert why(reported, "pytorchjob-train") is not None
    reported.cluster_state.resolver.set_unreadable({})
    reported.see("owners", PYTORCH)
    reported.step()
    assert why(reported, "pytorchjob-train") is None
    groups = workload_of(gang(reported, "pytorchjob-train"), reported.cluster_state.node_states).groups
    assert sorted((group.name, group.count, group.min) for group in groups) == [
        ("master", 1, 1),
        ("worker", 3, 3),
    ]
    assert numbers(reported, "pytorchjob-train") == ("8", "0/4")


def test_what_runs_when_its_owner_becomes_known_is_counted_once() -> None:
    """Weir is started while the kind can't be read, and the pods run already."""
    reported = node_states()
    reported.cluster_state.resolver.set_unreadable({("kubeflow.org", "PyTorchJob"): "it is away"})
    made = _training()
    for at, each in enumerate(made):
        each.spec.node_name, each.status.phase = "n1", "Running"
        each.metadata.annotations = {"weir.dev/start": str(at + 1), "weir.dev/gpus": f"{2 * at},{2 * at + 1}"}
    reported.see("pods", *made)
    reported.step()
    reported.see("owners", PYTORCH)
    reported.step()
    assert numbers(reported, "pytorchjob-train") == ("8", "4/4")
    assert (
        len(workload_of(gang(reported, "pytorchjob-train"), reported.cluster_state.node_states).groups) == 2
    )


def test_a_pod_whose_owners_come_late_leaves_no_workload_behind() -> None:
    reported = node_states()
    reported.see("pods", launcher())
    reported.step()
    assert set(reported.cluster_state.registry.named) == {"team/job-mpi-launcher"}
    statuses = StatusWriter(reported.cluster_state, {})
    assert statuses.take(reported.now_s) == []
    reported.see("owners", LAUNCHER_JOB)
    reported.step()
    assert "team/mpijob-mpi" in reported.cluster_state.registry.named, "the Job names the owner above it"
    assert statuses.take(reported.now_s) == []
    reported.see("owners", MPI)
    reported.step()
    reported.step()
    progress = {
        each.name for each in statuses.take(reported.now_s + 20.0) if isinstance(each, UpsertWorkload)
    }
    assert progress <= {"mpijob-mpi"}
    assert set(reported.cluster_state.registry.named) == {"team/mpijob-mpi"}
    assert set(reported.control.cluster.jobs) == {"team/mpijob-mpi"}


def test_a_group_whose_pods_were_replaced_by_others_is_not_counted() -> None:
    """A rolling update: the new pods ask for something else, and come before the old ones go."""
    reported = node_states()
    web = maker("ReplicaSet", "apps/v1", "web", "w", {"replicas": 1})
    old, new = pod("old", owner=reference(web), gpus=2), pod("new", owner=reference(web), gpus=1)
    reported.see("owners", web)
    reported.see("pods", old)
    reported.step()
    reported.see("pods", new)
    reported.step()
    reported.gone("pods", "team/old", "u-old")
    reported.step()
    assert numbers(reported, "replicaset-web") == ("1", "0/1")


@pytest.mark.parametrize(
    ("kind", "name", "gang"),
    [
        ("Foo", "x HTTP/1.1\r\nX-Evil: y\r\n\r\n", ""),
        ("job-victim/status/", "..", ""),
        ("Foo", "../../nodes/a", ""),
        ("Foo", "\u2603", "%2e%2e%2f"),
        ("/", "/", ""),
        ("\x00" * 300, "a.", "."),
        ("Job", "a" * 180 + "..b" * 40, ""),
    ],
)
def test_a_workload_has_a_name_that_can_be_written_whatever_its_owner_is_called(
    kind: str, name: str, gang: str
) -> None:
    key = GangKey("team", "x/v1", kind, name, "u", gang)
    made = object_name(key)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", made), made
    assert ".." not in made
    assert len(made) <= NAME_MAX
    assert made != object_name(GangKey("team", "x/v1", kind, f"{name}x", "u", gang))


def test_names_that_can_be_written_stay_as_they_are() -> None:
    key = GangKey("team", "kubeflow.org/v1", "PyTorchJob", "my.train-1", "u", "A-0")
    assert object_name(key) == "pytorchjob-my.train-1-a-0"
