"""Answers about workloads of a cluster."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.api.answers import Suggestion
from weir.api.workload_list import IdleRulesRow
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.cluster.answers import SchedulerAnswers
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry
from weir.kubernetes.usage.cluster_use import ClusterUse
from weir.model.policy import DurationByType, LifecyclePolicy, Policy
from weir.service.suggestions import SuggestionsFound


class Scheduled:
    """A backend by which each workload is scheduled."""

    def read(self, _look: Callable[[Any], Any]) -> bool:
        return True


def entry(uid: str) -> WorkloadIndexEntry:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": uid}
    metadata = {"name": "job-a", "namespace": "ns", "uid": f"of-{uid}"}
    thing = {"metadata": metadata, "spec": {"owner": owner}, "status": {"phase": "Pending"}}
    return WorkloadIndexEntry("ns", "job-a", f"of-{uid}", None, (), msgspec.convert(thing, WorkloadObject))


async def test_a_workload_made_again_has_suggestions_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tried(_self: SchedulerAnswers, workload: WorkloadIndexEntry) -> SuggestionsFound:
        return SuggestionsFound((Suggestion(sentence=workload.object.spec.owner.uid),))

    monkeypatch.setattr(SchedulerAnswers, "_suggestions", tried)
    answers = SchedulerAnswers(
        cast("Any", Scheduled()), lambda: None, ClusterSummary, cast("Any", None), ("nvidia.com/gpu",)
    )
    for uid in ("first", "second", "first"):
        found = await answers.why(entry(uid), all_namespaces=True, wait_s=10.0)
        assert [each.sentence for each in found.suggestions] == [uid]
    answers.close()


@pytest.mark.parametrize(
    ("kind", "suspend_s", "is_measured"), [("Job", 3600.0, True), ("Job", None, False), ("Pod", None, True)]
)
def test_the_idle_rules_of_a_workload_are_those_that_can_act_on_it(
    kind: str, suspend_s: float | None, is_measured: bool
) -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("ns"))
    here.hear("owners", job("a", "first", 1, namespace="ns"))
    here.hear("pods", pod("a-0", owner=("a", "first") if kind == "Job" else None, namespace="ns"))
    here.step()
    (gang,) = here.backend.cluster_state.registry.gangs.values()
    found = entry(gang.key.uid)
    found = WorkloadIndexEntry("ns", gang.object_name, "u", None, (), found.object)
    life = LifecyclePolicy(idle_suspend=DurationByType(train=3600.0), idle_notice=DurationByType(train=600.0))
    answers = SchedulerAnswers(
        here.backend,
        lambda: None,
        ClusterSummary,
        lambda: Policy(life=life),
        ("nvidia.com/gpu",),
        lambda: ClusterUse(at_s=1.0 if is_measured else 0.0),
    )
    rules = answers.idle_rules(found)
    answers.close()
    assert rules == (IdleRulesRow(notice_s=600.0, suspend_s=suspend_s) if is_measured else None)
