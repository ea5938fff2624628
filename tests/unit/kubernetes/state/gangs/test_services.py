"""Services that keep some replicas and borrow the others: minima, trimming by rule, and an hour without flapping."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.kubernetes.small_world import KINDS, WatchProgress, maker, node, pod, project, reference
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import OwnerReference
from weir.kubernetes.translate.annotation_values import parse_min_scale
from weir.kubernetes.writes.operations import Bind, Evict, PatchStatus, WriteDone
from weir.state.events import PodKey

GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-index"


def deployment(name: str, replicas: int, kept: int | None = None, namespace: str = "team") -> dict[str, Any]:
    made = maker("Deployment", "apps/v1", name, f"d-{name}", {"replicas": replicas}, namespace=namespace)
    annotations = {} if kept is None else {"weir.dev/min-replicas": str(kept)}
    return KINDS.narrow({**made, "metadata": {**made["metadata"], "annotations": annotations}})


# What a service is


def service_with(replicas: int, running: int, kept: int | None) -> WatchProgress:
    reported = WatchProgress()
    reported.see("nodes", node("n1", gpus=8))
    reported.see("projects", project("team", gpus=8))
    made = deployment("web", replicas, kept)
    reported.see("owners", made)
    for index in range(replicas):
        placed: dict[str, Any] = {"on": "n1", "devices": str(index), "start": 1, "phase": "Running"}
        reported.see(
            "pods", pod(f"web-{index}", owner=reference(made), **(placed if index < running else {}))
        )
    reported.step()
    return reported


@pytest.mark.parametrize(
    ("running", "kept", "needed", "preemptible"),
    [(0, 3, 1, True), (2, 3, 2, True), (5, 3, 3, True), (5, None, 1, False), (5, 1, 1, True)],
)
def test_running_replicas_up_to_those_kept_are_the_minimum(
    running: int, kept: int | None, needed: int, preemptible: bool
) -> None:
    workload = service_with(6, running, kept).control.cluster.jobs["team/deployment-web"].spec
    assert (workload.min_pods, workload.preemptible, workload.pods) == (needed, preemptible, 6)


def test_replicas_whose_node_is_gone_are_no_part_of_the_minimum() -> None:
    reported = service_with(6, 2, 3)
    reported.see("nodes", node("n2"))
    lost = {"on": "n2", "devices": "0", "start": 1, "phase": "Running"}
    reported.see("pods", pod("web-2", owner=reference(deployment("web", 6, 3)), **lost))
    reported.step()
    workload = reported.control.cluster.jobs["team/deployment-web"]
    assert workload.spec.min_pods == 3
    reported.gone("nodes", "n2", "n2")
    reported.step()
    assert (workload.spec.min_pods, workload.is_below()) == (2, False)


def test_groups_of_a_leader_worker_set_are_kept_by_their_index() -> None:
    reported = WatchProgress()
    reported.see("nodes", node("n1", gpus=8))
    reported.see("projects", project("team", gpus=8))
    made = maker(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "llm", "lws", {"leaderWorkerTemplate": {"size": 2}}
    )
    made = {**made, "metadata": {**made["metadata"], "annotations": {"weir.dev/min-replicas": "1"}}}
    reported.see("owners", made)
    for index in range(4):
        labels = {GROUP_LABEL: str(index // 2)}
        reported.see("pods", pod(f"llm-{index}", owner=reference(made), labels=labels))
    reported.step()
    jobs = reported.control.cluster.jobs
    found = {name: (job_.spec.min_pods, job_.spec.preemptible) for name, job_ in jobs.items()}
    assert found == {
        "team/leaderworkerset-llm-0": (2, False),
        "team/leaderworkerset-llm-1": (2, True),
    }


KNATIVE = "serving.knative.dev/v1"
MIN_REPLICAS, MIN_SCALE = "weir.dev/min-replicas", "autoscaling.knative.dev/min-scale"
RAW = [("InferenceService", "serving.kserve.io/v1beta1"), ("Deployment", "apps/v1")]
KNATIVE_CHAIN = [
    ("InferenceService", "serving.kserve.io/v1beta1"),
    ("Service", KNATIVE),
    ("Configuration", KNATIVE),
    ("Revision", KNATIVE),
    ("Deployment", "apps/v1"),
]


@pytest.mark.parametrize(
    ("chain", "written", "needed", "preemptible"),
    [
        (RAW, {}, 1, False),
        (RAW, {"InferenceService": {MIN_REPLICAS: "3"}}, 3, True),
        (RAW, {"Deployment": {MIN_REPLICAS: "3"}}, 3, True),
        (KNATIVE_CHAIN, {}, 1, False),
        *((KNATIVE_CHAIN, {kind: {MIN_REPLICAS: "3"}}, 3, True) for kind, _ in KNATIVE_CHAIN),
        (KNATIVE_CHAIN, {"Revision": {MIN_SCALE: "2"}, "Deployment": {MIN_SCALE: "2"}}, 2, True),
        (KNATIVE_CHAIN, {"InferenceService": {MIN_REPLICAS: "3"}, "Revision": {MIN_SCALE: "1"}}, 3, True),
    ],
)
def test_minimum_of_a_model_server_is_read_from_all_objects_above_its_pods(
    chain: list[tuple[str, str]], written: dict[str, dict[str, str]], needed: int, preemptible: bool
) -> None:
    reported = WatchProgress()
    reported.see("nodes", node("n1", gpus=8))
    reported.see("projects", project("team", gpus=8))
    above = None
    for kind, api_version in chain:
        made = maker(kind, api_version, "chat", f"u-{kind}", {"replicas": 5}, above=above)
        made = {**made, "metadata": {**made["metadata"], "annotations": written.get(kind, {})}}
        reported.see("owners", made)
        above = reference(made)
    for index in range(5):
        placed: dict[str, Any] = {"on": "n1", "devices": str(index), "start": 1, "phase": "Running"}
        reported.see("pods", pod(f"chat-{index}", owner=above, **placed))
    reported.step()
    (workload,) = [each.spec for each in reported.control.cluster.jobs.values()]
    assert (workload.name, workload.min_pods, workload.preemptible, workload.pods) == (
        "team/deployment-chat",
        needed,
        preemptible,
        5,
    )


@pytest.mark.parametrize(
    ("text", "kept"), [("0", 1), ("3", 3), ("", 1), ("many", 1), ("9" * 30, 1), ("-1", 1)]
)
def test_minima_of_knative_are_read_and_never_refuse_a_pod(text: str, kept: int) -> None:
    assert parse_min_scale(text) == kept


# Autoscaled services of several teams, hour by hour


@dataclass
class Service:
    """A Deployment with an autoscaler that asks for a number of replicas."""

    name: str
    namespace: str
    kept: int
    wanted: int = 1
    made: int = 0
    pods: dict[str, str] = field(default_factory=dict)  # names and nodes

    def body(self) -> dict[str, Any]:
        return deployment(self.name, self.wanted, self.kept, self.namespace)


class ServingCluster:
    """Services, their controllers and a real control, in virtual time."""

    def __init__(self, gpus: int, quotas: dict[str, int], *services: Service) -> None:
        self.scene = Scene()
        self.services = {each.name: each for each in services}
        self.stops: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        for at in range(gpus // 8):
            self.scene.hear("nodes", node(f"n{at}", gpus=8))
        for namespace, quota in quotas.items():
            self.scene.hear("projects", project(namespace, gpus=quota))
        for each in services:
            self.scale(each.name, each.wanted)

    def scale(self, name: str, replicas: int) -> None:
        """Do as an autoscaler: change the number of replicas."""
        service = self.services[name]
        service.wanted = replicas
        self.scene.hear("owners", service.body())

    def reconcile(self) -> None:
        """Make and delete pods as the controller of a Deployment does."""
        for service in self.services.values():
            while len(service.pods) < service.wanted:
                service.made += 1
                new = f"{service.name}-{service.made}"
                service.pods[new] = ""
                self.scene.hear("pods", self._pod(service, new))
            spare = sorted(
                service.pods, key=lambda each: (bool(service.pods[each]), -int(each.split("-")[1]))
            )
            for old in spare[: len(service.pods) - service.wanted]:
                self._gone(service, old)

    def run(self, steps: int = 1, each_s: float = 1.0) -> None:
        """Let time pass: controllers and control take turns."""
        for _ in range(steps):
            self.scene.now_s += each_s
            self.reconcile()
            for write in self.scene.step():
                self._carry_out(write)

    def placed(self) -> dict[str, int]:
        """The replicas with GPUs of each service."""
        return {name: sum(map(bool, each.pods.values())) for name, each in self.services.items()}

    def _carry_out(self, write: Any) -> None:
        if not isinstance(write, Bind | Evict):
            return
        service = self.services[write.name.split("-")[0]]
        self.scene.backend.take_outcome(write, WriteDone())
        if isinstance(write, Bind):
            self.starts[service.name] += 1
            service.pods[write.name] = write.node
            words = write.annotations
            on = {"on": write.node, "devices": words["weir.dev/gpus"], "start": int(words["weir.dev/start"])}
            self.scene.hear("pods", self._pod(service, write.name, phase="Running", **on))
        else:
            self.stops[service.name] += 1
            self._gone(service, write.name)

    def _gone(self, service: Service, name: str) -> None:
        service.pods.pop(name)
        key = f"{service.namespace}/{name}"
        self.scene.backend.deliver("pods")([ObjectRemoved(key, f"u-{name}")])

    def _pod(self, service: Service, name: str, **more: Any) -> Any:
        owner: OwnerReference = reference(service.body())
        return pod(name, namespace=service.namespace, owner=owner, **more)


def test_a_load_step_is_placed_by_victims_at_once_and_trimmed_one_replica_each() -> None:
    borrowers = [Service(name, "beta", kept=1, wanted=15) for name in ("b1", "b2", "b3", "b4")]
    here = ServingCluster(64, {"alpha": 48, "beta": 16}, Service("api", "alpha", kept=2), *borrowers)
    here.run(20)
    assert here.placed() == {"api": 1, "b1": 15, "b2": 15, "b3": 15, "b4": 15}
    here.scale("api", 40)
    here.run(10)
    placed = here.placed()
    assert placed["api"] == 40
    others = [placed[each.name] for each in borrowers]
    assert sum(others) == 24
    assert max(others) - min(others) <= 1, "they are trimmed level by level"
    assert sum(here.stops.values()) == 36, "no replica more than were needed"
    assert not here.stops["api"]


def test_services_keep_their_minimum_when_more_is_asked_for_than_there_is() -> None:
    borrowers = [Service(name, "beta", kept=3, wanted=12) for name in ("b1", "b2")]
    here = ServingCluster(24, {"alpha": 16, "beta": 8}, Service("api", "alpha", kept=1), *borrowers)
    here.run(20)
    here.scale("api", 40)
    here.run(20)
    placed = here.placed()
    assert placed["api"] == 16
    assert sorted(placed.values()) == [4, 4, 16]


def test_a_minimum_above_the_quota_leaves_what_is_borrowed_elastic() -> None:
    service = Service("b1", "beta", kept=1, wanted=20)
    here = ServingCluster(24, {"alpha": 16, "beta": 8}, Service("api", "alpha", kept=1), service)
    here.run(20)
    service.kept = 500
    here.scale("b1", 22)
    here.run(10)
    here.scale("api", 16)
    here.run(20)
    assert here.placed() == {"api": 16, "b1": 8}
    assert here.stops == {"b1": 14}, "it is trimmed, not stopped as a whole"


def test_a_minimum_follows_the_quota_of_its_project() -> None:
    reported = service_with(6, 5, 5)
    found = []
    for gpus in (3, 0, 8):
        reported.see("projects", project("team", gpus=gpus))
        reported.step()
        found.append(reported.control.cluster.jobs["team/deployment-web"].spec.min_pods)
    assert found == [3, 1, 5]


def test_an_hour_of_changing_load_stops_only_what_the_load_asks_for() -> None:
    quotas = {"alpha": 24, "beta": 24}
    services = [
        Service("a1", "alpha", 2),
        Service("a2", "alpha", 2),
        Service("b1", "beta", 2),
        Service("b2", "beta", 2),
    ]
    here = ServingCluster(48, quotas, *services)
    loads = {"a1": [1, 40, 40, 8], "a2": [10, 10, 2, 20], "b1": [4, 30, 4, 4], "b2": [12, 12, 20, 2]}
    here.run(20)
    for quarter in range(4):
        for name, load in loads.items():
            here.scale(name, load[quarter])
        here.run(10)
        before, stops = here.placed(), here.stops.copy()
        here.run(59, each_s=15.0)  # the load stays as it is for the rest of this quarter of an hour
        assert here.placed() == before, "nothing moves while the load doesn't change"
        assert here.stops == stops
    changes = sum(
        abs(later - sooner)
        for load in loads.values()
        for sooner, later in zip([1, *load], load, strict=False)
    )
    assert sum(here.stops.values()) <= changes


def test_the_wait_of_a_replica_for_its_gpus_is_measured_and_written() -> None:
    here = ServingCluster(8, {"team": 8}, Service("web", "team", kept=1, wanted=2))
    here.run(3)
    gang = here.scene.backend.cluster_state.registry.named["team/deployment-web"]
    assert gang.time_to_gpu_s is None  # no reader counts here
    tracked = next(gang.pods())
    tracked.bound = False
    waited = here.scene.backend.note_allocation(
        PodKey(gang.name, tracked.group, tracked.index), tracked.created_s + 2.5
    )
    assert waited == gang.time_to_gpu_s == 2.5
    here.scene.now_s += 30
    here.scene.backend.cluster_state.registry.changed[gang] = None
    written = [each for each in here.scene.reported() if isinstance(each, PatchStatus)]
    assert any(each.patch.get("status", {}).get("timeToGpuSeconds") == 2.5 for each in written)
