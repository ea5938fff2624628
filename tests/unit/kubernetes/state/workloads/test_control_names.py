"""A Job with the name of one that was deleted a moment ago: nothing of the first one's end counts for it."""

from tests.unit.kubernetes.small_world import job, pod
from tests.unit.kubernetes.test_backend import Scene, scene, status_of

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.writes.operations import Bind, WriteDone


def running(**annotations: str) -> Scene:
    """Return a cluster in which the first Job of the name runs."""
    here = scene(**annotations)
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    here.hear("pods", pod("train-0", owner=("train", "j1"), on="n1", devices="0", start=1, phase="Running"))
    assert here.step() == []
    return here


def give_name(here: Scene, **annotations: str) -> None:
    """Delete the first Job with its pod, and create another one of its name."""
    here.backend.deliver_owners()([ObjectRemoved("train", "j1")])
    here.hear("owners", job("train", "j2", **annotations))
    here.gone("train-0")
    here.hear("pods", pod("train-again", owner=("train", "j2")))


def named(here: Scene) -> Gang:
    gang = here.backend.cluster_state.registry.named["team/job-train"]
    assert gang.key.uid == "j2"
    return gang


def test_a_job_waits_for_another_though_the_first_one_of_its_name_had_started() -> None:
    here = running()
    give_name(here, after_ok="prepare")
    assert [here.step() for _ in range(5)] == [[]] * 5
    assert named(here).life.starts == 0
    here.now_s += 60.0
    status = status_of(here.reported())
    assert (status["phase"], status["reason"]["why"]) == ("Pending", "dependency")
    assert "team has no workload of that name yet" in status["reason"]["sentence"]


def test_a_job_starts_though_the_first_one_of_its_name_was_ended() -> None:
    here = running(max_runtime="10s")
    here.step(30.0)
    give_name(here)
    writes = [write for _ in range(5) for write in here.step()]
    assert [(type(write), write.name) for write in writes] == [(Bind, "train-again")]
    assert named(here).is_over() is None
    assert here.phases() == ["RUNNING"]


def test_the_end_of_a_job_is_known_before_the_next_one_of_its_name() -> None:
    here = running()
    give_name(here)
    here.step()
    assert here.phases() == []
    assert here.backend.due_s == here.now_s, "the next step follows at once"
    here.step()
    assert here.phases() == ["RUNNING"]
