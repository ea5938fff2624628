"""Conditions and events of pods that wait: one word that autoscalers understand, once for each change."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.api.answers import Explanation
from weir.control.port import StopPod
from weir.kubernetes.api.leader_election import AlwaysLeader
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import OwnerFields, WorkloadObject, WorkloadSpec
from weir.kubernetes.writes.delivery.event_recorder import STARTS_MAX, EventRecorder
from weir.kubernetes.writes.operations import EmitEvent, EventSubject, PatchStatus, Write
from weir.kubernetes.writes.statuses.condition_reasons import condition_reason
from weir.kubernetes.writes.statuses.pending_pods import (
    EVENT_AGAIN_S,
    REASON_EVERY_S,
    SENTENCE_EVERY_S,
    PendingPods,
    pod_reasons,
)
from weir.kubernetes.writes.statuses.statuses import StatusWriter
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.reasons import ReasonCode as Code
from weir.service.pending_reasons import PendingReasons
from weir.state.events import PodKey

BUYS_NODES = {
    Code.NO_NODE_MATCHES,
    Code.INSUFFICIENT_CAPACITY,
    Code.NO_ELIGIBLE_VICTIMS,
    Code.GANG_INCOMPLETE,
    Code.PREEMPTION_CYCLE,
}
FULL = Explanation(why="insufficient_capacity", sentence="insufficient capacity")


@pytest.mark.parametrize("code", Code)
def test_autoscalers_buy_nodes_for_what_nodes_help_alone(code: Code) -> None:
    reason = condition_reason(Explanation(why=code.value, sentence=""))
    assert (reason == "Unschedulable") == (code in BUYS_NODES)
    assert reason.isalnum()
    assert reason[0].isupper()


@pytest.mark.parametrize("code", sorted(BUYS_NODES))
def test_no_node_is_bought_for_work_over_its_quota_unless_the_settings_say_so(code: Code) -> None:
    why = Explanation(why=code.value, sentence="", numbers={"over_quota": True})
    assert condition_reason(why) == "OverQuota"
    waiting = Waiting()
    for is_on, expected in ((False, "OverQuota"), (True, "Unschedulable")):
        waiting.here.backend.set_scale_up_over_quota(is_on)
        is_up = waiting.here.backend.statuses.scale_up_over_quota
        ((_, reported),) = pod_reasons(waiting.gang, why, is_up)
        assert condition_reason(reported) == expected


def test_other_codes_are_their_own_words() -> None:
    assert condition_reason(Explanation(why="volume_not_ready", sentence="")) == "VolumeNotReady"
    unknown = Explanation(why="no_node_matches", sentence="", numbers={"topology": "net", "known": []})
    assert condition_reason(unknown) == "TopologyNotFound"


class Waiting:
    """A pod of a workload that waits, and what is written of it."""

    def __init__(self) -> None:
        self.here = Scene()
        self.here.hear("nodes", node("n1", gpus=4))
        self.here.hear("projects", project("team"))
        self.here.hear("owners", job("train", "j1"))
        self.here.hear("pods", pod("train-0", owner=("train", "j1"), gpus=8))
        self.here.step()
        self.gang = self.here.backend.cluster_state.registry.named["team/job-train"]
        self.tracked = next(self.gang.pods())
        self.pending = PendingPods()

    def take(self, why: Explanation, now_s: float) -> list[str]:
        writes = self.pending.take(self.gang, [(self.tracked, why)], now_s)
        return ["event" if isinstance(each, EmitEvent) else _message(each) for each in writes]


def _message(write: Any) -> str:
    assert isinstance(write, PatchStatus)
    (condition,) = write.patch["status"]["conditions"]  # type: ignore[index,call-overload]
    return f"{condition['reason']}: {condition['message']}"


def test_a_reason_is_written_once_and_its_sentence_at_a_modest_rate() -> None:
    waits = Waiting()
    assert waits.take(FULL, 0.0) == ["Unschedulable: insufficient capacity", "event"]
    assert waits.take(FULL, 1.0) == []
    other = Explanation(why="insufficient_capacity", sentence="insufficient capacity: less")
    assert waits.take(other, 2.0) == []
    assert waits.pending.next_s == SENTENCE_EVERY_S
    assert waits.take(other, SENTENCE_EVERY_S) == ["Unschedulable: insufficient capacity: less"]
    limit = Explanation(why="over_limit", sentence="it would exceed its limit")
    at_s = SENTENCE_EVERY_S + REASON_EVERY_S
    assert waits.take(limit, at_s) == ["LimitExceeded: it would exceed its limit", "event"]


def test_an_event_is_said_again_before_the_api_server_has_forgotten_it() -> None:
    waits = Waiting()
    waits.take(FULL, 0.0)
    assert waits.pending.next_s == EVENT_AGAIN_S
    assert waits.take(FULL, EVENT_AGAIN_S) == ["event"]
    assert waits.take(FULL, EVENT_AGAIN_S + 1.0) == []


def test_the_condition_of_a_gated_pod_is_left_to_the_api_server() -> None:
    waits = Waiting()
    assert waits.take(Explanation(why="scheduling_gated", sentence="waits for its gate"), 0.0) == ["event"]


def test_a_pod_of_another_uid_gets_its_reason_again() -> None:
    waits = Waiting()
    waits.take(FULL, 0.0)
    waits.tracked.uid = "another"
    assert waits.take(FULL, 0.1) == ["Unschedulable: insufficient capacity", "event"]


def test_a_reason_is_written_at_once_and_an_event_of_the_workload_once_it_can_be_named() -> None:
    waits = Waiting()
    here = waits.here
    reasons = PendingReasons(here.backend.reasons)
    here.backend.reasons_changed(reasons.update(here.control, here.now_s))
    here.writes.clear()
    here.backend.tell_waiting(here.now_s)
    assert not any("/pods/" in getattr(each, "path", "") for each in here.writes)
    here.now_s += 0.35
    here.backend.tell_waiting(here.now_s)
    conditions = [each for each in here.writes if "/pods/" in getattr(each, "path", "")]
    assert _message(conditions[0]).startswith("OverQuota: a pod asks for 8 GPUs")
    events = [each for each in here.writes if isinstance(each, EmitEvent)]
    assert [each.regarding.kind for each in events] == ["Pod"]
    thing = WorkloadObject(Metadata("job-train", namespace="team", uid="w1"), WorkloadSpec(OwnerFields("j1")))
    here.hear("workloads", thing)
    here.step()
    (event,) = (each for each in here.reported() if isinstance(each, EmitEvent))
    assert (event.reason, event.regarding.kind, event.regarding.uid) == ("Waiting", "Workload", "w1")


def test_pods_that_start_at_once_get_no_condition() -> None:
    here = Scene()
    here.hear("nodes", node("n1", gpus=64))
    here.hear("projects", project("team", gpus=64))
    for at in range(64):
        here.hear("owners", job(f"j{at}", f"uid{at}"))
        here.hear("pods", pod(f"j{at}-0", owner=(f"j{at}", f"uid{at}")))
        if at % 8 == 7:
            here.step()
            reasons = PendingReasons(here.backend.reasons)
            here.backend.reasons_changed(reasons.update(here.control, here.now_s))
            here.writes.clear()
            here.backend.tell_waiting(here.now_s)
            here.backend.tell_people(here.now_s)
            assert not any("/pods/" in getattr(each, "path", "") for each in here.writes)


def test_in_a_burst_events_of_starts_are_left_out_and_no_others() -> None:
    recorder = EventRecorder(None, AlwaysLeader(), per_s=1.0, waiting_max=5000, busy=lambda: True)  # type: ignore[arg-type]
    about = EventSubject("v1", "Pod", "p", "team")
    for _ in range(1000):
        recorder.say(EmitEvent(about, "Scheduled", ""))
    assert len(recorder) == STARTS_MAX
    recorder.say(EmitEvent(about, "Preempted", "", type="Warning"))
    recorder.say(EmitEvent(about, "Unschedulable", "", waits=True))
    assert len(recorder) == STARTS_MAX + 2


def test_events_of_work_that_waits_go_first() -> None:
    def event(name: str, *, waits: bool) -> EmitEvent:
        return EmitEvent(EventSubject("v1", "Pod", name, "team"), "Scheduled", "", waits=waits)

    class Api:
        def __init__(self) -> None:
            self.posted: list[str] = []
            self.all = asyncio.Event()

        async def post(self, _path: str, body: dict[str, Any], _of: object) -> None:
            self.posted.append(body["regarding"]["name"])
            if len(self.posted) == 3:
                self.all.set()

    async def answer() -> list[str]:
        api = Api()
        recorder = EventRecorder(api, AlwaysLeader(), per_s=1000.0, waiting_max=3, busy=lambda: False)  # type: ignore[arg-type]
        for name, waits in (("a", False), ("b", False), ("c", True), ("d", True)):
            recorder.say(event(name, waits=waits))
        running = asyncio.create_task(recorder.run())
        await api.all.wait()
        running.cancel()
        return api.posted

    assert asyncio.run(answer()) == ["c", "d", "b"]


def test_pods_that_come_back_after_a_stop_get_their_reason_from_the_next_decision() -> None:
    """In a large reclaim the decision follows at once, and says why they wait."""
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("owners", job("train", "j1"))
    reported.see("pods", pod("t-0", owner=("train", "j1"), on="n1", phase="Running"))
    reported.step()
    reasons: dict[str, Explanation] = {}
    statuses = StatusWriter(reported.cluster_state, reasons)
    list(statuses.take(reported.now_s + 20.0))
    gang = reported.cluster_state.registry.named["team/job-train"]
    cause = EvictionCause(EvictionRule.RECLAIM_QUOTA, "other/job-a", "stopped for other/job-a")
    statuses.stops(gang, StopPod(PodKey(gang.name, 0, 0), 1, 30.0, cause), 100.0)
    reported.gone("pods", "team/t-0", "u-t-0")
    reported.now_s = 110.0
    reported.step(after_s=0.0)
    list(statuses.take(110.0))
    reported.see("pods", pod("t-1", owner=("train", "j1")))
    reported.now_s = 120.0
    reported.step(after_s=0.0)
    assert not _why_of(statuses.take(120.0))
    reasons[gang.name] = Explanation(why=Code.INSUFFICIENT_CAPACITY, sentence="full")
    statuses.reasons_changed([gang.name])
    assert _why_of(statuses.take(120.2)) == {"insufficient_capacity"}
    del reasons[gang.name]
    statuses.reasons_changed([gang.name])
    assert not _why_of(statuses.take(130.0))
    assert _why_of(statuses.take(131.5)) == {"reclaim_quota"}, "no decision came"


def _why_of(writes: Iterable[Write | EmitEvent]) -> set[str]:
    """Return the reasons that Workloads get."""
    statuses = [each.patch["status"] for each in writes if isinstance(each, PatchStatus) and each.inside]
    return {each["reason"]["why"] for each in statuses if each.get("reason")}  # type: ignore[attr-defined, index]


def test_a_pod_that_waits_beside_one_on_a_lost_node_has_a_reason() -> None:
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("owners", job("train", "j1", 2))
    reported.see("pods", pod("t-0", owner=("train", "j1"), on="gone", start=1, devices="0", phase="Running"))
    reported.see("pods", pod("t-1", owner=("train", "j1")))
    reported.step()
    statuses = StatusWriter(reported.cluster_state, {})
    writes = [*statuses.take(reported.now_s), *statuses.take(reported.now_s + 20.0)]
    paths = [each.path for each in writes if isinstance(each, PatchStatus) and not each.inside]
    assert paths == ["/api/v1/namespaces/team/pods/t-1"]
