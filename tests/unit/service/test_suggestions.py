"""Estimated starts are ranges learned from enough ended work, and are never made from services."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from weir.api.answers import Suggestion
from weir.engine.cache import EngineCache
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload, WorkloadType
from weir.scenario_io.scalars import PRIORITY_MAX
from weir.service import what_if
from weir.service.control_thread import ControlUnavailable
from weir.service.decision_state import DecisionState
from weir.service.suggestions import SuggestionOptions, suggestions
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce

NOW_S = 10_000.0
Found = TypeVar("Found")


def workload(name: str, *, type_: WorkloadType, max_runtime_s: float | None = None) -> Workload:
    return Workload(
        name,
        "p",
        (PodGroup("0", Request(devices=4)),),
        1,
        0.0,
        type=type_,
        preemptible=False,
        user="mia",
        max_runtime_s=max_runtime_s,
    )


def waits(
    ended: int,
    type_: WorkloadType = WorkloadType.TRAIN,
    max_runtime_s: float | None = None,
    ran_s: float = 100.0,
) -> list[Suggestion]:
    """Return estimates for a workload behind a running one; those like that one took 200, 210, ... s."""
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("n", 4, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 4000}),)))
    cluster.now_s = NOW_S
    for index in range(ended):
        reduce(cluster, WorkloadSubmitted(workload(f"runs-{index}", type_=type_), 0.0))
        reduce(cluster, WorkloadEnded(f"runs-{index}", WorkloadOutcome.SUCCEEDED, 1.0, 200.0 + 10 * index))
    running = workload("runs-99", type_=type_, max_runtime_s=max_runtime_s)
    reduce(cluster, WorkloadSubmitted(running, 0.0))
    reduce(cluster, PodAssigned(Placement(PodKey("runs-99", 0, 0), "n", (0, 1, 2, 3)), NOW_S - ran_s))
    reduce(cluster, WorkloadSubmitted(workload("waits", type_=WorkloadType.TRAIN), 0.0))
    state = DecisionState(cluster, EngineCache(), Policy(), NOW_S)
    answers = suggestions(lambda read: read(state), "waits", SuggestionOptions(PRIORITY_MAX)).suggestions
    return [suggestion for suggestion in answers if suggestion.at_s is not None]


def test_a_range_is_given_once_enough_have_ended() -> None:
    (suggestion,) = waits(20)
    assert suggestion.sentence == (
        "If it waits, it starts in 2m to 4m30s (estimated from 20 ended workloads like runs-99), "
        "when runs-99 has ended."
    )
    assert suggestion.at_s == NOW_S + 270


@pytest.mark.parametrize("ended", [0, 1, 9])
def test_too_few_ended_workloads_give_no_estimate(ended: int) -> None:
    assert waits(ended) == []


def test_services_give_no_estimate() -> None:
    assert waits(20, WorkloadType.INFERENCE) == []
    assert waits(20, WorkloadType.BUILD) == []


def test_a_maximum_run_time_bounds_the_wait() -> None:
    (suggestion,) = waits(0, WorkloadType.INFERENCE, max_runtime_s=700.0)
    assert suggestion.sentence == "If it waits, it starts in 10m at the latest, when runs-99 has ended."
    (suggestion,) = waits(20, max_runtime_s=300.0)
    assert "in 2m to 3m20s (estimated" in suggestion.sentence


def test_a_run_longer_than_nearly_all_alike_gives_no_estimate() -> None:
    assert waits(10, ran_s=200.0)
    assert waits(10, ran_s=280.0) == []


def test_what_there_is_no_time_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = full_pool()
    state = DecisionState(cluster, EngineCache(), Policy(), NOW_S)
    whole = suggestions(lambda read: read(state), "waits", SuggestionOptions(PRIORITY_MAX))
    assert (len(whole.suggestions), whole.untried) == (2, ())
    assert whole.suggestions[0].change == {"gpus": 2}
    monkeypatch.setattr(what_if, "TRIALS_MAX", 2)  # enough to find fewer devices, and for nothing more
    part = suggestions(lambda read: read(state), "waits", SuggestionOptions(PRIORITY_MAX))
    assert part.suggestions == whole.suggestions[:1]
    assert part.untried[-1] == "the end of one running workload"


def test_suggestions_end_with_the_control_loop() -> None:
    state = DecisionState(full_pool(), EngineCache(), Policy(), NOW_S)
    left = 6

    class Ends:
        def __call__(self, read: Callable[[DecisionState], Found], /) -> Found:
            nonlocal left
            left -= 1
            if left < 0:
                raise ControlUnavailable("The control loop has ended.")
            return read(state)

    answer = suggestions(Ends(), "waits", SuggestionOptions(PRIORITY_MAX))
    assert [suggestion.change for suggestion in answer.suggestions] == [{"gpus": 2}]
    assert "the end of one running workload" in answer.untried


def test_an_unknown_workload_is_no_fault_of_the_trials() -> None:
    state = DecisionState(full_pool(), EngineCache(), Policy(), NOW_S)
    with pytest.raises(KeyError):
        suggestions(lambda read: read(state), "nothing", SuggestionOptions(PRIORITY_MAX))


def full_pool() -> Cluster:
    """Return a pool with two of four GPUs free, and a workload that waits for four."""
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("n", 4, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 4000}),)))
    half = PodGroup("0", Request(devices=2))
    reduce(cluster, WorkloadSubmitted(Workload("runs", "p", (half,), 1, 0.0, preemptible=False), 0.0))
    reduce(cluster, PodAssigned(Placement(PodKey("runs", 0, 0), "n", (0, 1)), NOW_S - 60))
    reduce(cluster, WorkloadSubmitted(workload("waits", type_=WorkloadType.TRAIN), 0.0))
    return cluster
