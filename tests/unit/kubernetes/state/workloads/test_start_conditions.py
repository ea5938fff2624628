"""Workloads of a cluster that start at a time, or after others of their namespace."""

from datetime import UTC, datetime

import pytest
from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod, project

from weir.control.port import Gate
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.translate.annotation_values import NAMES_MAX, parse_names
from weir.kubernetes.translate.annotations import read_one


class Chain(WatchProgress):
    """A cluster with a project, and Jobs of one pod."""

    def __init__(self) -> None:
        super().__init__()
        self.see("nodes", node("n1"))
        self.see("projects", project("team"))
        self.step()

    def create(self, name: str, *, over: str = "", **annotations: str) -> None:
        self.see("owners", job(name, f"j-{name}", over=over, **annotations))
        self.see("pods", pod(f"{name}-0", owner=(name, f"j-{name}")))
        self.step()

    def run(self, name: str) -> None:
        placed = pod(f"{name}-0", owner=(name, f"j-{name}"), on="n1", devices="0", start=1, phase="Running")
        self.see("pods", placed)
        self.step()

    def end(self, name: str, how: str) -> None:
        self.see("owners", job(name, f"j-{name}", over="Complete" if how == "Succeeded" else "Failed"))
        self.see("pods", pod(f"{name}-0", owner=(name, f"j-{name}"), on="n1", start=1, phase=how))
        self.step()
        written = WorkloadObject(Metadata(f"job-{name}", namespace="team"))
        written.spec.owner.uid, written.status.phase = f"j-{name}", how
        self.see("workloads", written)
        self.step()

    def gang(self, name: str) -> Gang:
        return self.cluster_state.registry.named[f"team/job-{name}"]

    def gates(self, name: str) -> dict[Gate, str]:
        """The closed gates of a Job, as control knows them."""
        held = self.control.cluster.jobs[f"team/job-{name}"]
        told = self.gang(name).reported_start_gates
        assert held.held is bool(told), (held.held, held.held_why, told)
        return {gate: each.reason for gate, each in told.items()}


def at(now_s: float) -> str:
    return f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def test_a_job_begins_at_its_time() -> None:
    chain = Chain()
    chain.create("night", begin=at(3600))
    assert chain.gates("night") == {Gate.BEGIN_TIME: "it begins at 1970-01-01 01:00:00 UTC"}
    due_s = chain.cluster_state.due_s
    assert due_s is not None
    assert due_s <= 3600
    chain.step(3000)
    assert Gate.BEGIN_TIME in chain.gates("night")
    chain.step(700)
    assert chain.gates("night") == {}


@pytest.mark.parametrize(
    ("key", "how", "starts"),
    [
        ("after_ok", "Succeeded", True),
        ("after_ok", "Failed", False),
        ("after_not_ok", "Failed", True),
        ("after_not_ok", "Succeeded", False),
        ("after_any", "Succeeded", True),
        ("after_any", "Failed", True),
    ],
)
def test_a_job_starts_by_what_became_of_another(key: str, how: str, starts: bool) -> None:
    chain = Chain()
    chain.create("train", **{key: "prepare"})
    assert "team has no workload of that name yet" in chain.gates("train")[Gate.DEPENDENCY]
    chain.create("prepare")
    assert "it waits for prepare to" in chain.gates("train")[Gate.DEPENDENCY]
    chain.run("prepare")
    assert chain.gates("train")
    chain.end("prepare", how)
    chain.step()
    if starts:
        assert chain.gates("train") == {}
    else:
        assert "was to start only if prepare" in chain.gates("train")[Gate.DEPENDENCY]
        assert "delete it, or remove its annotation" in chain.gates("train")[Gate.DEPENDENCY]
        chain.see("owners", job("train", "j-train"))
        chain.step()
        assert chain.gates("train") == {}, "the annotation was removed"


def test_after_waits_for_a_start_and_holds_nothing_back_from_what_runs() -> None:
    chain = Chain()
    chain.create("server")
    chain.create("client", after="server", begin=at(50))
    assert set(chain.gates("client")) == {Gate.BEGIN_TIME, Gate.DEPENDENCY}
    chain.run("server")
    chain.step()
    assert set(chain.gates("client")) == {Gate.BEGIN_TIME}
    chain.step(60)
    assert chain.gates("client") == {}
    chain.run("client")
    chain.see("owners", job("client", "j-client", after="nothing"))
    chain.step()
    assert chain.gates("client") == {}, "it has started"


def test_a_condition_that_was_met_stays_met_without_the_other_job() -> None:
    chain = Chain()
    chain.create("prepare")
    chain.create("train", after_ok="prepare,index")
    chain.run("prepare")
    chain.end("prepare", "Succeeded")
    chain.step()
    chain.gone("pods", "team/prepare-0", "u-prepare-0")
    chain.gone("owners", "prepare", "j-prepare")
    chain.step(200)
    assert chain.gates("train") == {
        Gate.DEPENDENCY: "it waits for index, and team has no workload of that name yet"
    }
    chain.create("index")
    assert chain.gates("train") == {Gate.DEPENDENCY: "it waits for index to succeed"}


def test_jobs_of_another_namespace_and_the_job_itself_meet_no_condition() -> None:
    chain = Chain()
    chain.create("loop", after_ok="loop")
    assert chain.gates("loop") == {Gate.DEPENDENCY: "it names itself in a condition for its start: loop"}
    chain.see("projects", project("other"))
    done = pod("prepare-0", owner=("prepare", "j-o"), namespace="other", on="n1", start=1, phase="Succeeded")
    chain.see("owners", job("prepare", "j-o", namespace="other", over="Complete"))
    chain.see("pods", done)
    chain.create("train", after_ok="prepare")
    chain.step()
    assert "no workload of that name" in chain.gates("train")[Gate.DEPENDENCY]


def test_control_that_starts_again_closes_the_gates_again() -> None:
    chain = Chain()
    chain.create("prepare")
    chain.create("train", after_ok="prepare", begin=at(3600))
    before = chain.gates("train")
    chain.restart()
    assert chain.gates("train") == before


@pytest.mark.parametrize("written", ["", "a,,b", "A", "../x", "a b", "x" * 300])
def test_wrong_names_are_refused_with_what_to_write(written: str) -> None:
    with pytest.raises(ValueError, match="write names such as prepare,index"):
        parse_names(written)


def test_names_are_bounded_and_each_counts_once() -> None:
    assert parse_names("a, b,a") == ("a", "b")
    with pytest.raises(ValueError, match="write fewer"):
        parse_names(",".join(f"n{at}" for at in range(NAMES_MAX + 1)))


def test_a_time_that_is_none_is_a_mistake_of_the_annotation() -> None:
    _, mistakes = read_one(Metadata("a", annotations={"weir.dev/begin": "soon"}))
    assert "weir.dev/begin: 'soon' is no point in time" in mistakes[0]


def test_a_start_of_a_former_job_of_that_name_meets_no_condition() -> None:
    chain = Chain()
    written = WorkloadObject(Metadata("job-server", namespace="team"))
    written.spec.owner.uid, written.status.started_at = "j-former", at(0)
    chain.see("workloads", written)
    chain.create("server")
    chain.create("client", after="server")
    assert chain.gates("client") == {Gate.DEPENDENCY: "it waits for server to start"}
    chain.run("server")
    chain.step()
    assert chain.gates("client") == {}


def test_a_job_that_is_gone_stays_in_no_other_condition() -> None:
    chain = Chain()
    chain.create("train", after_ok="prepare")
    chain.see("owners", job("train", "j-train", after_ok="index"))
    chain.step()
    former = chain.gang("train")
    chain.gone("pods", "team/train-0", "u-train-0")
    chain.gone("owners", "train", "j-train")
    chain.step(200)
    gates = chain.cluster_state._start_conditions  # nothing else shows what is kept
    names = [f"team/{prefix}{name}" for prefix in ("job-", "") for name in ("prepare", "index")]
    assert former.key not in chain.cluster_state.registry.gangs
    assert gates.dependents(names) == []
