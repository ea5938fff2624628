"""Pods of Jobs in a namespace that is being deleted get the condition by which the Job fails, each once."""

from collections.abc import Sequence

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import (
    KubePod,
    Metadata,
    Namespace,
    ObjectCondition,
    OwnerReference,
    PodSpec,
    PodStatus,
)
from weir.kubernetes.writes.operations import PatchStatus
from weir.kubernetes.writes.pods.namespace_end import NamespaceEnds

GOING = "2026-03-01T12:00:00Z"
NOW_S = 1772366400.0
"""The same time."""


class Cluster:
    """Writes of a cluster of one namespace."""

    def __init__(self) -> None:
        self.leads = True
        self.written: list[PatchStatus] = []
        self.ends = NamespaceEnds(self._submit, lambda: self.leads, lambda: NOW_S)

    def _submit(self, writes: Sequence[PatchStatus]) -> None:
        self.written += writes

    def namespace(self, name: str = "team", deleted: str | None = GOING) -> None:
        self.ends.see_namespaces([ObjectSet(name, Namespace(Metadata(name, deletion_timestamp=deleted)))])

    def pod(
        self,
        name: str,
        *,
        deleted: str | None = GOING,
        kind: str = "Job",
        by_index: bool = True,
        conditions: Sequence[str] = (),
    ) -> None:
        owner = OwnerReference("batch/v1", kind, "train", "u-train", controller=True)
        metadata = Metadata(name, f"u-{name}", "team", deletion_timestamp=deleted, owner_references=[owner])
        if by_index:
            metadata.annotations["batch.kubernetes.io/job-index-failure-count"] = "0"
        status = PodStatus("Failed", conditions=[ObjectCondition(each, "True") for each in conditions])
        self.ends.see_pods([ObjectSet(f"team/{name}", KubePod(metadata, PodSpec(), status))])

    @property
    def paths(self) -> list[str]:
        return [each.path.rpartition("/")[2] for each in self.written]


def test_pods_that_go_before_or_after_their_namespace_get_the_condition_once() -> None:
    cluster = Cluster()
    cluster.pod("early")
    assert not cluster.written, "a Job may lose a pod for any reason"
    cluster.namespace()
    cluster.pod("late")
    cluster.pod("late")
    cluster.namespace()
    assert cluster.paths == ["early", "late"]
    (condition,) = cluster.written[0].patch["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("weir.dev/ended", "True")
    assert cluster.written[0].patch["metadata"] == {"uid": "u-early"}


def test_other_pods_are_left_alone() -> None:
    cluster = Cluster()
    cluster.namespace()
    cluster.pod("runs", deleted=None)
    cluster.pod("theirs", by_index=False)
    cluster.pod("serves", kind="ReplicaSet")
    cluster.pod("told", conditions=["weir.dev/ended"])
    cluster.namespace("other")
    assert not cluster.written


def test_a_namespace_that_is_made_again_is_another() -> None:
    cluster = Cluster()
    cluster.namespace()
    cluster.ends.see_namespaces([ObjectRemoved("team", "u-team")])
    cluster.namespace(deleted=None)
    cluster.pod("new")
    assert not cluster.written


def test_a_new_leader_writes_what_is_missing() -> None:
    cluster = Cluster()
    cluster.leads = False
    cluster.namespace()
    cluster.pod("one")
    cluster.pod("gone")
    cluster.ends.see_pods([ObjectRemoved("team/gone", "u-gone")])
    assert not cluster.written
    cluster.leads = True
    cluster.ends.tell_all()
    assert cluster.paths == ["one"]


def test_conditions_are_written_again_while_the_pods_are_kept() -> None:
    """The Job's controller looks at a pod again only when the pod changes."""
    cluster = Cluster()
    cluster.namespace()
    cluster.pod("kept")
    cluster.pod("gone")
    cluster.pod("kept", conditions=["weir.dev/ended"])
    cluster.ends.see_pods([ObjectRemoved("team/gone", "u-gone")])
    cluster.written.clear()
    cluster.ends.tell_all()
    cluster.ends.tell_all()
    assert cluster.paths == ["kept", "kept"]
    (condition,) = cluster.written[0].patch["status"]["conditions"]
    assert condition["lastProbeTime"], "an equal condition would change nothing"
    cluster.leads = False
    cluster.ends.tell_all()
    assert len(cluster.written) == 2


def test_the_condition_has_the_time_of_the_api_server() -> None:
    cluster = Cluster()
    cluster.pod("late")
    cluster.namespace()
    (write,) = cluster.written
    (condition,) = write.patch["status"]["conditions"]  # type: ignore[index]
    assert condition["lastTransitionTime"] == condition["lastProbeTime"] == GOING
