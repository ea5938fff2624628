"""The idle ladder on a cluster: suspended Jobs, refusals, other kinds, borrowed quota, restarts."""

from typing import Any

import msgspec
from tests.unit.kubernetes.deliveries import deliver

from weir.control.loop import Control
from weir.control.port import ActivitySampled
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import OwnerFields, WorkloadObject, WorkloadSpec, WorkloadStatus
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.requests import DeviceResources
from weir.kubernetes.writes.operations import (
    Bind,
    Evict,
    PatchStatus,
    SuspendOwner,
    UpsertWorkload,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteUnknown,
)
from weir.model.activity import Activity
from weir.model.policy import DurationByType, LifecyclePolicy, Policy
from weir.state.jobs import Phase

from .small_world import KINDS, job, maker, node, pod, project, reference

SUSPENDS = LifecyclePolicy(
    idle_notice=DurationByType(train=120.0, inference=120.0),
    idle_suspend=DurationByType(train=1200.0, inference=1200.0),
    idle_warning=DurationByType(train=240.0, inference=240.0),
    max_idle_extend=86400.0,
)
YIELDS = LifecyclePolicy(idle_unprotect=DurationByType(train=600.0))
STOPS_TOO = LifecyclePolicy(
    idle_suspend=DurationByType(inference=1200.0),
    idle_limit=DurationByType(inference=2400.0),
    idle_warning=DurationByType(inference=240.0),
)
NAME = "team/job-train"


class Site:
    """A node with four GPUs, its control with the hooks of a process, and what is to be written."""

    def __init__(self, life: LifecyclePolicy) -> None:
        self.now_s = 1000.0
        self.writes: list[Any] = []
        self.policy = Policy(life=life)
        self.begin()

    def begin(self) -> None:
        """Start Weir: it knows nothing yet."""
        self.backend = KubernetesBackend(
            ClusterState(KINDS, DeviceResources()), self.writes.extend, lambda: None, lambda: self.now_s
        )
        self.hooks = ClusterControlHooks(self.backend, self.policy, lambda: self.now_s)
        self.control: Control = self.hooks.connect()
        self.hear("nodes", node("n1"))
        self.hear("projects", project("team"))

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

    def measured(self, for_s: float, *names: str, activity: Activity = Activity.PARKED) -> list[Any]:
        """Measure workloads again and again; return all writes."""
        writes, until_s = [], self.now_s + for_s
        while self.now_s < until_s:
            facts = [ActivitySampled(name, activity, self.now_s + 60.0) for name in names]
            self.backend.tell(facts)
            writes += self.step(60.0)
        return writes

    def phase(self, name: str = NAME) -> Phase:
        return self.control.cluster.jobs[name].pods[0][0].phase


def trains(life: LifecyclePolicy, **annotations: str) -> Site:
    """Return a site with a Job of four GPUs that runs."""
    site = Site(life)
    site.hear("owners", job("train", "j1", **annotations))
    site.hear("pods", pod("train-0", owner=("train", "j1"), gpus=4))
    site.step()
    site.hear("pods", pod("train-0", owner=("train", "j1"), gpus=4, on="n1", start=1, devices="0,1,2,3"))
    site.step()
    assert site.phase() is Phase.RUNNING
    return site


def suspended_job() -> dict[str, Any]:
    body = job("train", "j1")
    return {**body, "spec": {**body["spec"], "suspend": True}}


def test_idle_job_is_suspended_after_two_notices_and_resumes() -> None:
    site = trains(SUSPENDS)
    gang = site.backend.cluster_state.registry.named[NAME]
    writes = site.measured(1080.0, NAME)
    assert gang.life.idle.notices == 2
    assert "is suspended in" in gang.idle.warning
    assert not [each for each in writes if isinstance(each, SuspendOwner | Evict)]
    writes = site.measured(240.0, NAME)
    (order,) = [each for each in writes if isinstance(each, SuspendOwner)]
    assert order.path == "/apis/batch/v1/namespaces/team/jobs/train"
    assert order.patch == {"metadata": {"uid": "j1"}, "spec": {"suspend": True}}
    assert not [each for each in writes if isinstance(each, Evict)]  # the controller of Jobs deletes the pod
    assert site.phase() is Phase.STOPPING
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", suspended_job())
    site.step()
    site.backend.deliver("pods")([ObjectRemoved("team/train-0", "u-train-0")])
    writes = site.step()
    state = site.control.cluster.jobs[NAME]
    assert (state.held, state.held_why) == (True, "It is suspended: it was idle for 21m.")
    assert not [each for each in site.measured(3600.0, NAME) if isinstance(each, SuspendOwner | Evict)]
    site.hear("owners", job("train", "j1"))  # a person resumes it
    site.hear("pods", pod("train-1", owner=("train", "j1"), gpus=4))
    (bind,) = [each for each in site.step() if isinstance(each, Bind)]
    assert bind.name == "train-1"
    assert gang.idle.suspended_for == ""
    assert gang.life.idle.notices == 0


def test_refused_suspension_leaves_the_job_running_and_isnt_tried_again() -> None:
    site = trains(SUSPENDS)
    (order,) = [each for each in site.measured(1500.0, NAME) if isinstance(each, SuspendOwner)]
    site.backend.take_outcome(order, WriteRefused(403, "jobs is forbidden: no patch."))
    site.step()
    assert site.phase() is Phase.RUNNING
    assert not site.control.cluster.jobs[NAME].held
    assert not [each for each in site.measured(7200.0, NAME) if isinstance(each, SuspendOwner | Evict)]
    assert site.phase() is Phase.RUNNING


def test_suspension_that_a_person_undoes_at_once_lets_the_job_go_on() -> None:
    site = trains(SUSPENDS)
    (order,) = [each for each in site.measured(1500.0, NAME) if isinstance(each, SuspendOwner)]
    site.backend.take_outcome(order, WriteDone())
    site.backend.deliver("pods")([ObjectRemoved("team/train-0", "u-train-0")])
    site.hear("pods", pod("train-1", owner=("train", "j1"), gpus=4))  # never seen suspended
    assert not [each for each in site.step() if isinstance(each, Bind)]
    assert [each.name for each in site.step(31.0) if isinstance(each, Bind)] == ["train-1"]


def test_suspension_that_was_lost_lets_the_job_run_on_and_is_ordered_again() -> None:
    for outcome in (WriteUnknown("no answer"), WriteNotSent("not leading")):
        site = trains(SUSPENDS)
        (order,) = [each for each in site.measured(1500.0, NAME) if isinstance(each, SuspendOwner)]
        site.backend.take_outcome(order, outcome)
        site.step()
        site.step(31.0)
        assert site.phase() is Phase.RUNNING
        assert not site.control.cluster.jobs[NAME].held
        assert [each for each in site.measured(120.0, NAME) if isinstance(each, SuspendOwner)]


def deployment(life: LifecyclePolicy) -> tuple[Site, str]:
    site = Site(life)
    owner = maker("Deployment", "apps/v1", "serve", "d1", {"replicas": 1})
    site.hear("owners", owner)
    site.hear("pods", pod("serve-0", owner=reference(owner)))
    site.step()
    site.hear("pods", pod("serve-0", owner=reference(owner), on="n1", start=1, devices="0"))
    site.step()
    (name,) = site.control.cluster.jobs
    return site, name


def test_kind_that_cant_be_suspended_hears_so_and_stays() -> None:
    site, name = deployment(SUSPENDS)
    writes = site.measured(7200.0, name)
    assert not [each for each in writes if isinstance(each, SuspendOwner | Evict)]
    warning = site.backend.cluster_state.registry.named[name].idle.warning
    assert "Weir doesn't suspend it: it can suspend Jobs, and no Deployment." in warning
    assert site.phase(name) is Phase.RUNNING


def test_kind_that_cant_be_suspended_goes_on_to_the_stop_after_two_notices() -> None:
    site, name = deployment(STOPS_TOO)
    gang = site.backend.cluster_state.registry.named[name]
    assert not [each for each in site.measured(2280.0, name) if isinstance(each, Evict)]
    assert gang.life.idle.notices == 2
    assert [each.name for each in site.measured(300.0, name) if isinstance(each, Evict)] == ["serve-0"]


def test_job_of_another_controller_isnt_suspended() -> None:
    site = trains(SUSPENDS)
    above = maker("Workflow", "example.dev/v1", "flow", "f1")
    body = job("train", "j1")
    body["metadata"]["ownerReferences"] = [
        msgspec.to_builtins(
            reference(
                {**above, "apiVersion": "e/v1", "kind": "Flow", "metadata": {"name": "flow", "uid": "f1"}}
            )
        )
    ]
    site.hear("owners", body)
    assert not [each for each in site.measured(7200.0, NAME) if isinstance(each, SuspendOwner | Evict)]


def test_unprotected_job_gives_way_to_any_request_and_is_suspended() -> None:
    site = trains(YIELDS)
    site.hear("projects", project("guests", gpus=0))
    site.hear("owners", job("other", "j2", namespace="guests"))
    site.hear("pods", pod("other-0", owner=("other", "j2"), namespace="guests", gpus=2))
    assert not [each for each in site.measured(540.0, NAME) if isinstance(each, Evict)]
    writes = site.measured(240.0, NAME)
    (evicted,) = [each for each in writes if isinstance(each, Evict)]
    (order,) = [each for each in writes if isinstance(each, SuspendOwner)]
    assert (evicted.name, order.path.rpartition("/")[2]) == ("train-0", "train")
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", suspended_job())
    site.backend.take_outcome(evicted, WriteDone())
    site.backend.deliver("pods")([ObjectRemoved("team/train-0", "u-train-0")])
    bound = [each.name for each in site.step() if isinstance(each, Bind)]
    assert bound == ["other-0"]
    assert "it was idle, and its GPUs went to guests/job-other" in site.control.cluster.jobs[NAME].held_why


def test_starved_and_unmeasured_work_is_never_touched() -> None:
    for activity in (Activity.STARVED, Activity.UNKNOWN, Activity.WORKING):
        site = trains(SUSPENDS)
        writes = site.measured(7200.0, NAME, activity=activity)
        assert not [each for each in writes if isinstance(each, SuspendOwner | Evict)]
        assert site.backend.cluster_state.registry.named[NAME].life.idle.notices == 0


def status_written(writes: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in writes:
        if isinstance(each, UpsertWorkload):
            found.update(each.body.get("status", {}))  # type: ignore[call-overload]
        elif isinstance(each, PatchStatus) and "/workloads/" in each.path:
            found.update(each.patch["status"])  # type: ignore[call-overload]
    return found


def test_restart_keeps_the_position_and_repeats_nothing() -> None:
    site = trains(SUSPENDS, idle_extended_until="1970-01-01T00:10:00Z")
    writes = site.measured(720.0, NAME)
    status = status_written(writes)
    assert status["life"]["idle"]["notices"] == 1
    assert "is suspended in" in status["idleWarning"]
    site.begin()
    owner = OwnerFields(api_version="batch/v1", kind="Job", name="train", uid="j1")
    thing = WorkloadObject(
        metadata=node("job-train").metadata,
        spec=WorkloadSpec(owner=owner, project="team"),
        status=msgspec.convert(
            {key: value for key, value in status.items() if value is not None}, WorkloadStatus
        ),
        written="yes",
    )
    thing.metadata.namespace = "team"
    site.hear("workloads", thing)
    site.hear("owners", job("train", "j1"))
    site.hear("pods", pod("train-0", owner=("train", "j1"), gpus=4, on="n1", start=1, devices="0,1,2,3"))
    site.step()
    gang = site.backend.cluster_state.registry.named[NAME]
    assert "is suspended in" in gang.idle.warning
    site.measured(120.0, NAME)
    assert gang.life.idle.notices == 1
    writes = site.measured(1200.0, NAME)  # the time since the position was stored last doesn't count
    assert gang.life.idle.notices == 2
    assert len([each for each in writes if isinstance(each, SuspendOwner)]) == 1


def test_extension_counts_once_although_weir_restarts() -> None:
    life = SUSPENDS
    site = trains(life, idle_extended_until="2030-01-01T00:00:00Z")
    idle = site.backend.cluster_state.registry.named[NAME].life.idle
    assert idle.excused_until_s == site.now_s - 0.1 + life.max_idle_extend or idle.excused_until_s is not None
    until_s = idle.excused_until_s
    site.now_s += 3600.0
    site.control = site.hooks.connect()
    site.step()
    assert site.backend.cluster_state.registry.named[NAME].life.idle.excused_until_s == until_s
