"""The story everybody tries first: two nodes of two devices, two teams of which one borrows and gives back."""

from collections.abc import Callable, Iterator

import pytest
from tests.kubernetes.churn import EVICTIONS_ARE_NO_FAILURE
from tests.kubernetes.constraints import scheduling
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job


class Story:
    """The cluster of the story, told in its words."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cluster.add_nodes(2, gpus=2)
        self.teams = {name: cluster.namespace() for name in ("team-a", "team-b")}
        for team in self.teams.values():
            cluster.api.create(project(team, 2))

    def asks(self, team: str, name: str, gpus: int) -> None:
        asked = job(self.teams[team], name, gpus, grace_s=5)
        asked["spec"]["podFailurePolicy"] = EVICTIONS_ARE_NO_FAILURE
        self.cluster.api.create(asked)

    def ends(self, team: str, name: str) -> None:
        self.cluster.api.delete(f"/apis/batch/v1/namespaces/{self.teams[team]}/jobs/{name}")

    def workload(self, team: str, name: str) -> dict:
        path = f"/apis/weir.dev/v1alpha1/namespaces/{self.teams[team]}/workloads/job-{name}"
        return self.cluster.api.maybe(path) or {}

    def phase(self, team: str, name: str) -> str:
        return self.workload(team, name).get("status", {}).get("phase", "")

    def runs(self, team: str, name: str) -> bool:
        at = [pod for pod in self.cluster.running(self.teams[team]) if pod.startswith(f"{name}-")]
        return len(at) == 1 and self.phase(team, name) == "Running"

    def waits(self, team: str, name: str) -> bool:
        return self.phase(team, name) == "Pending" and bool(self.workload(team, name)["status"].get("reason"))

    def until(self, true: Callable[[str, str], bool], team: str, name: str) -> None:
        self.cluster.until(lambda: true(team, name), f"{team}/{name}: {true.__name__}")


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-story") as running:
        yield running


@pytest.fixture
def story(cluster: Cluster, weir: Weir) -> Iterator[Story]:
    weir.check()
    yield Story(cluster)
    weir.check()


def test_what_was_borrowed_goes_back_to_its_owner_and_comes_again(story: Story) -> None:
    story.asks("team-a", "pair", 2)
    story.until(story.runs, "team-a", "pair")
    story.asks("team-a", "single", 1)
    story.until(story.runs, "team-a", "single")
    story.asks("team-b", "first", 1)
    story.until(story.runs, "team-b", "first")
    story.asks("team-b", "second", 1)
    story.until(story.runs, "team-b", "second")
    story.until(story.waits, "team-a", "single")
    assert story.runs("team-a", "pair")
    assert story.runs("team-b", "first")
    story.ends("team-b", "first")
    story.until(story.runs, "team-a", "single")
    assert story.runs("team-a", "pair")
    assert story.runs("team-b", "second")


def test_an_evicted_workload_has_an_event_with_the_cause(story: Story) -> None:
    for name, gpus in (("pair", 2), ("single", 1), ("other", 1)):
        story.asks("team-a", name, gpus)
        story.until(story.runs, "team-a", name)
    story.asks("team-b", "second", 1)
    story.until(story.runs, "team-b", "second")
    path = f"/apis/events.k8s.io/v1/namespaces/{story.teams['team-a']}/events"

    def is_reported() -> bool:
        return any(
            story.teams["team-b"] in (each.get("note") or "") for each in story.cluster.api.items(path)
        )

    story.cluster.until(is_reported, "an event that names the other team")
