"""Reports while many pods start or stop at once: fewer of them, but reasons within a few seconds."""

from typing import Any

import msgspec
import pytest

from weir.api.answers import Explanation
from weir.control.port import StopPod
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import Metadata, ObjectCondition
from weir.kubernetes.crd.objects import OwnerFields, WorkloadObject, WorkloadSpec
from weir.kubernetes.writes.operations import Bind, Evict, PatchStatus, UpsertWorkload, WriteDone
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.events import PodKey

from .small_world import job, node, pod, project
from .test_backend import Scene

MANY = 40


def crowd(pods: int, gpus: int = MANY, until: int = 0) -> Scene:
    """Decide on many Jobs of one pod on a large node, and carry out their bindings."""
    here = Scene()
    here.hear("nodes", node("n1", gpus=gpus))
    here.hear("projects", project("team", gpus=gpus))
    for at in range(pods):
        here.hear("owners", job(f"j{at}", f"uid{at}"))
        here.hear("pods", pod(f"j{at}-0", owner=(f"j{at}", f"uid{at}")))
    for bind in here.step():
        assert isinstance(bind, Bind)
        here.backend.take_outcome(bind, WriteDone())
    here.step()
    return here


def run(here: Scene, at: int, *, deleting: bool = False) -> None:
    held = {"owner": (f"j{at}", f"uid{at}"), "on": "n1", "start": 1, "devices": str(at), "phase": "Running"}
    here.hear("pods", pod(f"j{at}-0", deleting=deleting, **held))  # type: ignore[arg-type]


def tell(here: Scene, after_s: float) -> dict[str, list[Any]]:
    """Return the writes for workloads, by their objects."""
    here.now_s += after_s
    found: dict[str, list[Any]] = {}
    for each in here.reported():
        if isinstance(each, UpsertWorkload | PatchStatus) and "/workloads" in each.object_path:
            found.setdefault(each.object_path.rpartition("/")[2], []).append(each)
    return found


def test_a_workload_that_is_placed_at_once_is_written_once_and_said_of_once() -> None:
    here = crowd(MANY)
    assert tell(here, 0.1) == tell(here, 3.0) == {}
    for at in range(MANY):
        run(here, at)
    here.step()
    reported = tell(here, 0.1)
    assert len(reported) == MANY
    for writes in reported.values():
        assert [type(each) for each in writes] == [UpsertWorkload, PatchStatus]
        assert writes[1].patch["status"]["phase"] == "Running"
    assert tell(here, 40.0) == {}


def test_a_long_start_is_reported_even_in_a_burst() -> None:
    here = crowd(MANY)
    assert tell(here, 0.1) == tell(here, 20.0) == {}
    reported = tell(here, 11.0)
    assert len(reported) == MANY
    assert {writes[1].patch["status"]["phase"] for writes in reported.values()} == {"Starting"}


def test_one_of_many_that_start_is_written_once_it_runs() -> None:
    here = crowd(MANY)
    here.now_s += 3.0
    assert here.backend.statuses.take(here.now_s) == []  # no pod is being bound any more
    for at in range(MANY - 1):
        run(here, at)
    here.step()
    reported = tell(here, 8.0)
    assert len(reported) == MANY - 1
    assert {writes[1].patch["status"]["phase"] for writes in reported.values()} == {"Running"}
    (writes,) = tell(here, 5.0).values()
    assert writes[1].patch["status"]["phase"] == "Starting"


def test_the_reason_of_a_pending_workload_is_written_in_a_burst_too() -> None:
    here = crowd(MANY + 2)
    waiting = [name for name, job_ in here.control.cluster.jobs.items() if any(job_.pending)]
    assert len(waiting) == 2
    here.backend.reasons[waiting[0]] = Explanation(
        why="insufficient_capacity", sentence="There is no capacity.", numbers={}
    )
    here.backend.statuses.reasons_changed(waiting[:1])
    names = [name.partition("/")[2] for name in waiting]
    assert tell(here, 0.1) == tell(here, 3.0) == {}
    assert [*tell(here, 2.1)] == names[:1]
    assert [*tell(here, 10.0)] == names[1:]  # that it waits at all, though the reason is unknown


def whys(here: Scene, free: int) -> list[str]:
    """Give all that wait a reason with this number in it; their names."""
    names = [name for name, job_ in here.control.cluster.jobs.items() if any(job_.pending)]
    why = Explanation(
        why="insufficient_capacity", sentence=f"{free} devices are free.", numbers={"free": free}
    )
    here.backend.reasons.update(dict.fromkeys(names, why))
    here.backend.statuses.reasons_changed(names)
    return names


@pytest.mark.parametrize(("waiting", "at_once"), [(MANY, False), (MANY // 2, True)])
def test_new_words_of_a_reason_are_written_a_minute_later_where_many_wait(
    waiting: int, at_once: bool
) -> None:
    here = crowd(MANY + waiting)
    tell(here, 31.0)  # no burst any more
    assert len(whys(here, 1)) == waiting
    tell(here, 1.0)
    for after_s in (1.0, 1.0, 1.0):  # until their objects and pods are told of
        tell(here, after_s)
    whys(here, 2)
    assert len(tell(here, 1.0)) == (waiting if at_once else 0)
    whys(here, 3)
    assert len(tell(here, 1.0)) == (waiting if at_once else 0)
    reported = tell(here, 60.0)
    assert len(reported) == (0 if at_once else waiting)
    assert {patch.patch["status"]["reason"]["numbers"]["free"] for (patch,) in reported.values()} <= {3}


def test_another_reason_is_written_at_once_though_many_wait() -> None:
    here = crowd(2 * MANY)
    tell(here, 31.0)
    names = whys(here, 1)
    for after_s in (1.0, 1.0, 1.0):
        tell(here, after_s)
    limit = Explanation(why="over_limit", sentence="It would exceed a limit.", numbers={})
    here.backend.reasons.update(dict.fromkeys(names, limit))
    here.backend.statuses.reasons_changed(names)
    assert len(tell(here, 1.0)) == MANY


def test_pods_that_take_the_places_of_deleted_ones_are_not_counted_beside_them() -> None:
    here = crowd(1)
    run(here, 0)
    here.step()
    tell(here, 1.0)
    run(here, 0, deleting=True)
    here.hear("pods", pod("j0-1", owner=("j0", "uid0")))
    here.step()
    assert [type(each) for writes in tell(here, 5.0).values() for each in writes] == [PatchStatus]
    here.hear("pods", pod("j0-2", owner=("j0", "uid0")))
    here.step()
    (writes,) = tell(here, 5.0).values()
    (upsert,) = (each for each in writes if isinstance(each, UpsertWorkload))
    (group,) = upsert.body["spec"]["groups"]  # type: ignore[index]
    assert group["count"] == 3


def test_few_workloads_are_written_at_once_while_others_start() -> None:
    here = Scene()
    here.hear("nodes", node("n1", gpus=MANY))
    here.hear("projects", project("team", gpus=MANY))
    here.hear("owners", job("big", "j1", MANY, min_pods=str(MANY)))
    here.hear("pods", *(pod(f"big-{at}", owner=("big", "j1")) for at in range(MANY)))
    binds = here.step()
    assert len(binds) == here.backend.binding == MANY
    tell(here, 0.1)
    (writes,) = tell(here, 1.5).values()
    assert writes[1].patch["status"]["phase"] == "Starting"


def test_the_memory_of_control_is_written_with_the_rest_of_the_status() -> None:
    here = crowd(MANY)
    for at in range(MANY):
        run(here, at)
    here.step()
    tell(here, 0.1)
    for at in range(MANY):
        here.gone(f"j{at}-0")  # an operator took them
        here.hear("owners", job(f"j{at}", f"uid{at}"))
        here.hear("pods", pod(f"j{at}-1", owner=(f"j{at}", f"uid{at}")))
    here.hear("nodes", node("n1", gpus=MANY, cordoned=True))
    here.step()
    assert tell(here, 0.1) == {}
    reported = tell(here, 1.1)
    assert len(reported) == MANY
    for (patch,) in reported.values():
        assert (patch.patch["status"]["phase"], patch.patch["status"]["life"]["settled"]) == ("Pending", 1)


@pytest.mark.parametrize("has_rules", [True, False])
def test_an_eviction_that_people_are_told_of_is_written_in_a_burst_too(has_rules: bool) -> None:
    here = crowd(MANY)
    for at in range(MANY):
        run(here, at)
    here.step()
    assert len(tell(here, 0.1)) == MANY
    here.backend.statuses.past.has_rules = lambda _: has_rules
    cause = EvictionCause(EvictionRule.PREEMPT, "team/job-big", "Big needs the node.")
    names = [gang.name for gang in here.backend.cluster_state.registry.gangs.values()]
    here.backend.apply([StopPod(PodKey(name, 0, 0), 1, 30.0, cause) for name in names])
    assert tell(here, 0.1) == tell(here, 2.0) == {}
    reported = tell(here, 5.1)
    assert len(reported) == (MANY if has_rules else 0)
    for (patch,) in reported.values():
        assert patch.patch["status"]["lastEviction"]["sentence"] == cause.sentence
    assert tell(here, 7.0) == {}, "once"


@pytest.mark.parametrize("ends", [True, False])
def test_pods_that_hang_are_no_burst_for_long(ends: bool) -> None:
    here = crowd(MANY)
    assert here.backend.cluster_state.orders.moving(here.now_s) == MANY
    if ends:
        for at in range(MANY):
            here.gone(f"j{at}-0")
        here.step()
    else:
        here.now_s += 31.0
    assert here.backend.cluster_state.orders.moving(here.now_s) == 0


def test_pods_that_are_evicted_are_a_burst_until_they_are_gone() -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1", max_runtime="10s"))
    here.hear("pods", pod("train-0", owner=("train", "j1")))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    held = {"owner": ("train", "j1"), "on": "n1", "start": 1, "devices": "0", "phase": "Running"}
    here.hear("pods", pod("train-0", **held))  # type: ignore[arg-type]
    here.step()
    assert here.backend.cluster_state.orders.moving(here.now_s) == 0
    (evict,) = here.step(after_s=11.0)
    assert isinstance(evict, Evict)
    here.hear("pods", pod("train-0", deleting=True, **held))  # type: ignore[arg-type]
    here.step()
    assert here.backend.cluster_state.orders.moving(here.now_s) == 1
    here.gone("train-0")
    here.step()
    assert here.backend.cluster_state.orders.moving(here.now_s) == 0


@pytest.mark.parametrize(("uid", "there"), [("j1", True), ("another", False)])
def test_an_object_that_is_there_is_changed_and_not_made_again(uid: str, there: bool) -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    thing = WorkloadObject(Metadata("job-train", namespace="team"), WorkloadSpec(OwnerFields(uid)))
    here.hear("workloads", thing)
    here.hear("owners", job("train", "j1"))
    here.hear("pods", pod("train-0", owner=("train", "j1")))
    here.step()
    tell(here, 0.1)
    (writes,) = tell(here, 1.5).values()
    assert isinstance(writes[0], UpsertWorkload)
    assert writes[0].exists is there


def test_a_restart_writes_nothing_that_is_there_already() -> None:
    placed = ObjectCondition("PodScheduled", "True", last_transition_time="2026-01-01T00:00:07Z")

    def begun(object_there: WorkloadObject | None) -> dict[str, list[Any]]:
        here = Scene()
        here.hear("nodes", node("n1"))
        here.hear("projects", project("team"))
        if object_there is not None:
            here.hear("workloads", object_there)
        here.hear("owners", job("train", "j1"))
        running = pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running")
        running.status.conditions = [placed]
        here.hear("pods", running)
        here.step()
        return tell(here, 0.1)

    (writes,) = begun(None).values()
    upsert, patch = writes
    there = stated({**upsert.body, **patch.patch})
    thing = msgspec.convert(there, WorkloadObject)
    assert thing.status.phase == "Running"
    assert begun(thing) == {}
    there["status"]["written"] = "by somebody else"
    (again,) = begun(msgspec.convert(there, WorkloadObject)).values()
    assert [type(each) for each in again] == [PatchStatus]


def stated(words: Any) -> Any:
    """Return the object that a merge patch makes of nothing."""
    if isinstance(words, dict):
        return {key: stated(value) for key, value in words.items() if value is not None}
    return words


@pytest.mark.parametrize("goes_too", ["", "pods", "owner"])
def test_a_deleted_object_is_written_again_unless_its_pods_or_its_owner_go_too(goes_too: str) -> None:
    here = crowd(1)
    run(here, 0)
    here.step()
    tell(here, 1.0)
    there = WorkloadObject(Metadata("job-j0", namespace="team"), WorkloadSpec(OwnerFields("uid0")))
    here.hear("workloads", there)
    here.step()
    tell(here, 20.0)
    if goes_too == "owner":  # the garbage collector is slow with its pods
        here.backend.deliver_owners()([ObjectRemoved("j0", "uid0")])
    here.backend.deliver("workloads")([ObjectRemoved("team/job-j0", "w")])
    if goes_too == "pods":
        run(here, 0, deleting=True)
    here.step()
    assert not any(isinstance(each, UpsertWorkload) for writes in tell(here, 1.0).values() for each in writes)
    reported = tell(here, 6.0)
    assert [type(each) for writes in reported.values() for each in writes] == (
        [] if goes_too else [UpsertWorkload, PatchStatus]
    )
    assert not tell(here, 60.0)
