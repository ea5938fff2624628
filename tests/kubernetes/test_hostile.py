"""Whatever a real API server accepts, by a seed: every other pod is scheduled, and a Weir that starts among it works.

WEIR_EFFORT multiplies the number of objects; WEIR_SEED makes them others.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from tests.kubernetes.claim_objects import TAINT_RULES_FEATURES, TAINT_RULES_SERVED
from tests.kubernetes.command_line import answering
from tests.kubernetes.constraints import scheduling
from tests.kubernetes.group_plane import plane_with_groups
from tests.kubernetes.hostile import Hostile
from tests.kubernetes.week.invariants import Violation
from tests.kubernetes.week.queries import disagreements, unanswered
from tools.controlplane.api import ApiError, collection
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import pod

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
SEED = int(os.environ.get("WEIR_SEED", "1"))
ACCEPTED = 300 * EFFORT
PART = 200
OWNERS = 48
"""Owners of the pods: with few, each Workload has many pods, and every write of its status costs much."""
ASKED_MAX = 100
"""Workloads of which everything is asked."""
TAINT = {"key": "quiet", "value": "", "effect": "NoSchedule"}
TOLERATES = {"tolerations": [{"key": "quiet", "operator": "Exists"}]}


class Crowd:
    """Well-behaved workloads, on nodes of their own, beside hostile ones."""

    def __init__(self, cluster: Cluster, weir: Weir) -> None:
        self.cluster = cluster
        self.weir = weir
        self.api = cluster.api
        self.good, self.bad = cluster.namespace(), cluster.namespace()
        self.quiet = cluster.add_nodes(2, gpus=8, prefix="quiet", taints=[TAINT], pods=2000)
        self.own = cluster.add_nodes(2, gpus=8, prefix="own")
        self.api.create(project(self.good, 16), project(self.bad, 4))
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.statuses = 0

    def runs(self, *names: str) -> None:
        """These pods of those who behave come to run."""
        for name in names:
            self.api.create(pod(self.good, name, 1, labels={"weir.dev/project": self.good}, **TOLERATES))
        self.cluster.until(
            lambda: set(names) <= self.cluster.running(self.good).keys(),
            lambda: f"{names} to run\n{self.weir.log_text()[-3000:]}",
        )
        self.weir.check()

    def owners(self, count: int) -> list[dict[str, Any]]:
        """References to many objects that own pods, as their controllers would write them."""
        made = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"owner-{at}", "namespace": self.bad},
            }
            for at in range(count)
        ]
        return [
            {**_reference(each), "controller": True, "uid": there["metadata"]["uid"]}
            for each, there in zip(made, self.api.create(*made), strict=True)
        ]

    def is_answered(self) -> str:
        """Ask a Weir with an API that starts among all of it; return its log."""
        self.weir.kill()
        account, words = self.cluster.plane.kubeconfig_for("weir"), ["--no-leader-election"]
        with answering(self.cluster, self.cluster.namespace(), "asked", words, account=account) as asked:

            def wrong() -> list[Violation]:
                return list(disagreements(self.api, self._workloads()))

            self.cluster.until(lambda: not wrong(), lambda: f"the API to agree: {wrong()[:10]}")
            names = sorted(f"{namespace}/{name}" for namespace, name in self._workloads())
            assert list(unanswered(self.api, names[:ASKED_MAX])) == []
            asked.check()
            return asked.log_text()

    def _workloads(self) -> dict[tuple[str, str], dict[str, Any]]:
        found = self.api.items("/apis/weir.dev/v1alpha1/workloads")
        return {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in found}

    def clean(self) -> None:
        """Delete what was made in bulk, with nothing running that would answer each deletion with requests."""
        self.weir.kill()
        self.cluster.plane.kill("kwok")
        for path in ("apis/batch/v1/namespaces/{}/jobs", "apis/weir.dev/v1alpha1/namespaces/{}/workloads"):
            self.api.delete(f"/{path.format(self.bad)}")
        self.api.delete(f"/api/v1/namespaces/{self.bad}/pods", grace_s=0)
        self.cluster.plane.restart("kwok")

    def make(self, objects: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self.api.at_once(self._make, objects)

    def _make(self, one: tuple[str, dict[str, Any]]) -> None:
        resource, made = one
        inside = made["kind"] == "Workload"  # its status is no subresource
        status, meta = None if inside else made.pop("status", None), made["metadata"]
        for word in ("uid", "creationTimestamp"):
            meta.pop(word, None)
        try:
            self.api.post(collection(made), made)
            self.accepted[resource] += 1
            if status and meta["name"].endswith(("1", "7")):
                path = f"{collection(made)}/{meta['name']}/status"
                self.api.patch(path, {"status": status})
                self.statuses += 1
        except ApiError as why:
            self.refused[f"{resource} {why.code}"] += 1


def _reference(made: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": made["metadata"]["name"]}


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    with plane_with_groups(binaries, TAINT_RULES_FEATURES, TAINT_RULES_SERVED) as running:
        yield running


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-hostile") as running:
        yield running


@pytest.fixture
def crowd(cluster: Cluster, weir: Weir) -> Iterator[Crowd]:
    if not weir.is_started:
        weir.start()
    weir.check()
    yield Crowd(cluster, weir)
    if weir.is_started:
        weir.check()


def test_every_other_pod_is_scheduled_whatever_is_accepted(crowd: Crowd) -> None:
    hostile = Hostile(SEED, crowd.bad, crowd.own, crowd.quiet)
    hostile.owners = crowd.owners(OWNERS)
    crowd.runs("good-first")
    for part in count():
        if (left := ACCEPTED - sum(crowd.accepted.values())) <= 0:
            break
        objects = hostile.objects(min(PART, 50 + left))
        if part % 3:  # they come while Weir is away: it costs half as much to read them as to hear of each
            crowd.weir.kill()
            crowd.make(objects)
            crowd.weir.start()
        else:
            crowd.make(objects)
        crowd.runs(f"good-{hostile.made}")
    crowd.weir.kill()
    crowd.weir.start()
    crowd.runs("good-after")
    answer = crowd.weir.log_text() + crowd.is_answered()
    crowd.clean()
    print(
        f"seed {SEED}: accepted {dict(crowd.accepted)} and {crowd.statuses} statuses, refused {dict(crowd.refused)}"
    )
    for fault in ("control_broken", "watch_broken", "not_taken_in", "reason_not_found", "query_failed"):
        assert fault not in answer, f"{fault}:\n{answer[answer.index(fault) :][:6000]}"


def _pod(crowd: Crowd, name: str, gpus: int, gives: dict[str, str], **spec: Any) -> dict[str, Any]:
    annotations = {f"weir.dev/{key}": value for key, value in gives.items()}
    return pod(crowd.bad, name, gpus, annotations=annotations, **spec)


def test_an_annotation_of_a_pod_that_bound_itself_stops_no_other(crowd: Crowd) -> None:
    lies = ({"gpus": "99"}, {"gpus": "9" * 30}, {"gpus": "0", "start": "9" * 5000})
    liars = [_pod(crowd, f"liar-{at}", 0, gives, nodeName=crowd.quiet[0]) for at, gives in enumerate(lies)]
    crowd.api.create(*liars)
    crowd.runs("good")
    crowd.weir.kill()
    crowd.weir.start()
    crowd.runs("after")


def test_an_annotation_changed_after_the_binding_survives_a_restart(crowd: Crowd) -> None:
    crowd.api.create(_pod(crowd, "liar", 2, {}))
    crowd.cluster.until(lambda: crowd.cluster.running(crowd.bad), "it runs")
    path = f"/apis/weir.dev/v1alpha1/namespaces/{crowd.bad}/workloads/pod-liar"

    def kept() -> list[dict[str, Any]]:
        return list(((crowd.api.maybe(path) or {}).get("status") or {}).get("allocations") or [])

    before = crowd.cluster.until(kept, "its allocation is recorded")
    changed = {"metadata": {"annotations": {"weir.dev/gpus": "99", "weir.dev/start": "9" * 5000}}}
    crowd.api.patch(f"/api/v1/namespaces/{crowd.bad}/pods/liar", changed)
    crowd.weir.kill()
    crowd.weir.start()
    crowd.runs("good")
    assert kept() == before


def test_a_pod_without_a_request_holds_no_devices(crowd: Crowd) -> None:
    for at, node in enumerate(crowd.quiet):
        crowd.api.create(_pod(crowd, f"liar-{at}", 0, {"gpus": "0,1,2,3,4,5,6,7"}, nodeName=node))
    crowd.runs(*(f"good-{at}" for at in range(16)))


def test_pods_that_bound_themselves_past_their_quota_give_way(crowd: Crowd) -> None:
    for at, node in enumerate(crowd.quiet):
        liar = _pod(crowd, f"liar-{at}", 8, {"preemptible": "false"}, nodeName=node, grace_s=1, **TOLERATES)
        crowd.api.create(liar)
    crowd.cluster.until(lambda: len(crowd.cluster.running(crowd.bad)) == 2, "both run")
    crowd.runs("good")
