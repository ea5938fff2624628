"""Answers about workloads of a cluster."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from weir.api.answers import Suggestion
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.cluster.answers import SchedulerAnswers
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry
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
