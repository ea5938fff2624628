"""Pods of trials that are gone before their Job is over."""

from typing import Any

import msgspec

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.sweeps.observed_jobs import ObservedJobs, TrialObject
from weir.kubernetes.sweeps.termination_results import TrialRunView

JOB, POD = "vision/digits-0-0", "vision/digits-0-0-x"
NOW_S = 1769860900.0
"""2026-01-31T12:01:40Z."""


def observed(*, complete: bool = False) -> tuple[ObservedJobs, list[str]]:
    changed: list[str] = []
    found = ObservedJobs(changed.append, clock=lambda: NOW_S)
    conditions = [{"type": "Complete", "status": "True"}] if complete else []
    metadata = {"name": "digits-0-0", "namespace": "vision", "labels": {"sweep.weir.dev/name": "digits"}}
    job = msgspec.convert({"metadata": metadata, "status": {"conditions": conditions}}, TrialObject)
    found.deliver_jobs([ObjectSet(JOB, job)])
    return found, changed


def pod(state: dict[str, Any], node: str = "n") -> TrialRunView:
    labels = {"sweep.weir.dev/name": "digits", "batch.kubernetes.io/job-name": "digits-0-0"}
    body = {
        "metadata": {"name": "digits-0-0-x", "namespace": "vision", "uid": "u", "labels": labels},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": [{"state": state}]},
    }
    return msgspec.convert(body, TrialRunView)


def test_an_evicted_pod_leaves_the_seconds_for_which_it_ran() -> None:
    found, changed = observed()
    found.deliver_pods([ObjectSet(POD, pod({}))])
    found.deliver_pods([ObjectSet(POD, pod({"running": {"startedAt": "2026-01-31T12:00:00Z"}}))])
    changed.clear()
    found.deliver_pods([ObjectRemoved(POD, "u")])
    assert found.evicted_s(JOB) == {"u": 100.0}
    assert found.placed() == set()
    assert changed == ["vision/digits"]
    found.forget_evicted(JOB, ["u"])
    assert found.evicted_s(JOB) == {}


def test_a_pod_that_has_ended_says_itself_for_how_long_it_ran() -> None:
    found, _ = observed()
    end = {"startedAt": "2026-01-31T12:00:00Z", "finishedAt": "2026-01-31T12:00:30Z"}
    found.deliver_pods([ObjectSet(POD, pod({"terminated": end})), ObjectRemoved(POD, "u")])
    assert found.evicted_s(JOB) == {"u": 30.0}


def test_pods_of_a_job_that_is_over_are_counted_with_its_results() -> None:
    found, _ = observed(complete=True)
    end = {"startedAt": "2026-01-31T12:00:00Z", "finishedAt": "2026-01-31T12:00:30Z"}
    found.deliver_pods([ObjectSet(POD, pod({"terminated": end})), ObjectRemoved(POD, "u")])
    assert found.evicted_s(JOB) == {}


def test_a_pod_that_never_ran_leaves_nothing() -> None:
    found, _ = observed()
    found.deliver_pods([ObjectSet(POD, pod({}, node="")), ObjectRemoved(POD, "u")])
    assert found.evicted_s(JOB) == {}
