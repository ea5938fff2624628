"""The highest priority of a project holds for whatever class its pods name."""

from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod

from weir.kubernetes.api.objects import FinalizedMetadata
from weir.kubernetes.crd.definitions import project_fields
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.writes.operations import EmitEvent
from weir.kubernetes.writes.statuses.statuses import StatusWriter

NAME = "team/job-urgent"


def team(most: int | None) -> QuotaObject:
    spec = {"quota": {"gpu": 4}, "namespaces": ["team"], **({} if most is None else {"maxPriority": most})}
    return QuotaObject(FinalizedMetadata("team", uid="p-team"), spec)


def cluster(most: int | None, priority: int = 1000) -> WatchProgress:
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", team(most))
    reported.see("owners", job("urgent", "j1"))
    urgent = pod("u-0", owner=("urgent", "j1"))
    urgent.spec.priority_class_name, urgent.spec.priority = "night", priority
    reported.see("pods", urgent)
    reported.step()
    return reported


def priority_of(reported: WatchProgress) -> tuple[int, bool]:
    spec = reported.control.cluster.jobs[NAME].spec
    return spec.priority, spec.preemptible


def test_a_higher_priority_counts_as_the_highest_of_the_project() -> None:
    assert priority_of(cluster(None)) == (1000, False)
    assert priority_of(cluster(60)) == (60, True)
    assert priority_of(cluster(60, priority=40)) == (40, True)
    assert priority_of(cluster(2000)) == (1000, False)


def test_a_change_of_the_highest_priority_holds_for_what_is_there() -> None:
    reported = cluster(None)
    for most, counts in ((60, 60), (120, 120), (None, 1000)):
        reported.see("projects", team(most))
        reported.step()
        assert priority_of(reported)[0] == counts


def test_the_workload_says_that_its_priority_counts_as_another() -> None:
    for most, answer in ((60, ["Its priority 1000 counts as 60, the highest of project team."]), (None, [])):
        reported = cluster(most)
        statuses = StatusWriter(reported.cluster_state, {})
        list(statuses.take(reported.now_s + 20.0))
        gang = reported.cluster_state.registry.named[NAME]
        events: list[EmitEvent] = statuses._events.get(gang, [])
        assert [each.note for each in events if each.reason == "PriorityCapped"] == answer


def test_caps_by_user_are_no_field_of_a_project_on_a_cluster() -> None:
    """Controllers make the pods, so their person is unknown."""
    assert "maxPriority" in project_fields()
    assert not {"maxPriorityOf", "personLimits", "personLimitsOf"} & set(project_fields())
