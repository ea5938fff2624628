"""Projects and departments that are deleted while work uses them."""

from typing import Any

from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod, project

from weir.control.port import WorkloadFinished
from weir.kubernetes.api.objects import FinalizedMetadata
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.writes.queue_finalizers import FINALIZER, IDLE_S, QueueFinalizers, leaving_messages
from weir.state.events import WorkloadSubmitted


class Watched(WatchProgress):
    """A small cluster whose finalizers are written as soon as they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.protection = QueueFinalizers(self.cluster_state.quota_objects, self.cluster_state.registry)
        self.see("nodes", node("n1"))

    def written(self) -> dict[str, list[str]]:
        """Return the finalizers that are written now, by the name of the object."""
        self.step()
        patches = self.protection.take(self.now_s)
        found: dict[str, Any] = {each.path.rpartition("/")[2]: each.patch["metadata"] for each in patches}
        assert all(each["resourceVersion"] == "7" for each in found.values())
        return {name: each["finalizers"] for name, each in found.items()}

    def messages(self) -> dict[tuple[str, str], str]:
        return leaving_messages(self.cluster_state.quota_objects, self.cluster_state.registry.users)


def department(name: str, parent: str = "", *, deleting: bool = False, held: bool = False) -> QuotaObject:
    meta = FinalizedMetadata(
        name,
        resource_version="7",
        deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        finalizers=[FINALIZER] if held else [],
    )
    return QuotaObject(meta, spec={"parent": parent} if parent else {})


def running(name: str, uid: str) -> Any:
    return pod(f"{name}-0", owner=(name, uid), on="n1", devices="0", start=1, phase="Running")


def test_a_project_is_held_while_work_uses_it_and_let_go_when_it_was_idle() -> None:
    reported = Watched()
    reported.see("projects", project("team", finalizers=["example.com/other"]), project("idle"))
    assert reported.written() == {}
    reported.see("owners", job("train", "j1"))
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    assert reported.written() == {"team": ["example.com/other", FINALIZER]}
    assert reported.written() == {}
    reported.see("projects", project("team", finalizers=["example.com/other", FINALIZER]))
    assert reported.written() == {}
    reported.gone("pods", "team/train-0", "u-train-0")
    assert reported.written() == {}
    reported.gone("owners", "train", "j1")
    assert reported.written() == {}
    reported.now_s += IDLE_S
    assert reported.protection.due_s is not None
    assert reported.protection.due_s <= reported.now_s
    assert reported.written() == {"team": ["example.com/other"]}


def test_a_deleted_project_goes_with_the_last_of_its_work() -> None:
    reported = Watched()
    reported.see("projects", project("team", finalizers=[FINALIZER]))
    reported.see("owners", job("train", "j1"), job("late", "j2"))
    reported.see("pods", running("train", "j1"))
    reported.step()
    reported.see("projects", project("team", finalizers=[FINALIZER], deleting=True))
    reported.see("pods", pod("late-0", owner=("late", "j2")))
    assert reported.written() == {}
    assert set(reported.control.cluster.jobs) == {"team/job-train"}
    late = reported.cluster_state.registry.named["team/job-late"]
    assert late.refusal.startswith("Project team is being deleted and takes no new work: ")
    assert reported.messages() == {
        ("Project", "team"): "It is being deleted. It stays until Job team/late, Job team/train have ended, "
        "and takes no new work."
    }
    reported.see("owners", job("train", "j1", over="Complete"))
    reported.gone("pods", "team/train-0", "u-train-0")
    assert reported.written() == {}
    reported.gone("owners", "late", "j2")
    reported.gone("pods", "team/late-0", "u-late-0")
    assert reported.written() == {"team": []}
    assert reported.messages() == {("Project", "team"): "It is being deleted."}
    other = project("team", deleting=True, finalizers=[FINALIZER, "example.com/other"])
    reported.see("projects", other)
    reported.step()
    assert reported.messages() == {
        ("Project", "team"): "It is being deleted. It stays until its finalizer example.com/other is removed."
    }


def test_work_that_waits_leaves_control_when_its_project_is_deleted() -> None:
    reported = Watched()
    reported.see("projects", project("team"))
    reported.see("owners", job("train", "j1"))
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    reported.step()
    reported.see("projects", project("team", finalizers=[FINALIZER], deleting=True))
    assert [type(fact) for fact in reported.step()] == [WorkloadFinished]
    assert reported.cluster_state.registry.named["team/job-train"].uses == "team"
    reported.see("projects", project("other", "team"), project("team", "elsewhere", deleting=True))
    (submitted,) = [fact for fact in reported.step() if isinstance(fact, WorkloadSubmitted)]
    assert submitted.workload.project == "other"


def test_no_finalizer_is_added_to_what_is_being_deleted() -> None:
    reported = Watched()
    reported.see("projects", project("team", deleting=True, finalizers=["example.com/other"]))
    reported.see("owners", job("train", "j1"))
    reported.see("pods", running("train", "j1"))
    assert reported.written() == {}


def test_departments_above_work_are_held() -> None:
    reported = Watched()
    reported.see("departments", department("lab"), department("group", "lab"), department("empty", "lab"))
    team = project("team")
    team.spec["department"] = "group"
    reported.see("projects", team)
    reported.see("owners", job("train", "j1"))
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    assert reported.written() == {"team": [FINALIZER], "group": [FINALIZER], "lab": [FINALIZER]}
    reported.see("departments", department("group", "lab", deleting=True, held=True))
    reported.step()
    assert reported.messages() == {
        ("Department", "group"): "It is being deleted. It stays until team has no work or another department."
    }
    moved = project("team")
    moved.spec["department"] = "lab"
    reported.see("projects", moved)
    assert reported.written()["group"] == []


def test_a_write_without_effect_is_repeated() -> None:
    reported = Watched()
    reported.see("projects", project("team"))
    reported.see("owners", job("train", "j1"))
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    assert reported.written() == {"team": [FINALIZER]}
    assert reported.written() == {}
    reported.now_s += 60.0
    assert reported.written() == {"team": [FINALIZER]}
