"""Costs of stopping trials: delivered when they change, and taken in by the state of the cluster."""

from typing import Any

from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod, project

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.sweeps.trial_costs import RESOURCE, TrialCosts
from weir.state.events import WorkloadChanged


def test_costs_are_delivered_when_they_change() -> None:
    told: list[Change[Any]] = []
    costs = TrialCosts(told.extend, lambda: 60.0)
    costs.tell("team/digits", {"team/job-digits-0-0": 660.0, "team/job-digits-1-0": 60.0})
    assert told == [ObjectSet("team/job-digits-0-0", 660.0), ObjectSet("team/job-digits-1-0", 60.0)]
    told.clear()
    costs.tell("team/digits", {"team/job-digits-0-0": 660.0, "team/job-digits-1-0": 60.0})
    assert told == []
    costs.tell("team/digits", {"team/job-digits-1-0": 660.0})
    assert told == [ObjectSet("team/job-digits-1-0", 660.0), ObjectRemoved("team/job-digits-0-0", "")]
    told.clear()
    costs.tell("team/digits", {})
    costs.tell("team/digits", {})
    assert told == [ObjectRemoved("team/job-digits-1-0", "")]


def test_the_engine_hears_what_a_stop_of_a_trial_costs() -> None:
    seen = WatchProgress()
    seen.see("nodes", node("n1"))
    seen.see("projects", project("team"))
    seen.see("owners", job("digits-0-0", "j"))
    seen.see("pods", pod("digits-0-0-x", owner=("digits-0-0", "j"), on="n1", start=1, devices="0"))
    seen.step()

    def told(change: Change[Any]) -> list[float | None]:
        seen.cluster_state.see(RESOURCE, [change], seen.now_s)
        seen.step()
        return [fact.workload.restart_s for fact in seen.facts if isinstance(fact, WorkloadChanged)]

    assert told(ObjectSet("team/job-digits-0-0", 660.0)) == [660.0]
    assert told(ObjectSet("team/job-digits-0-0", 660.0)) == []
    assert told(ObjectSet("team/job-of-nothing", 660.0)) == []
    assert told(ObjectRemoved("team/job-digits-0-0", "")) == [None]
