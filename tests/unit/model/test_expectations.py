"""Held against what it expects, a played scenario is said to differ where it does and nowhere else."""

import pytest

from weir.model.expectations import differences
from weir.model.reasons import ReasonCode
from weir.model.scenario import Expect, Expectation
from weir.model.scenario_result import CycleResult, PodResult, ScenarioResult

PODS = {
    "a/x/0": PodResult("running", "n0", (0, 1)),
    "a/x/1": PodResult("running", "n1", (2,)),
    "a/x/2": PodResult("waiting", reason="Waits for b.", why="waiting_for_eviction", evicted_by="b"),
    "b/x/0": PodResult("pending", reason="Full.", why="insufficient_capacity"),
}
CYCLES = (CycleResult(bound=("a/x/0",)), CycleResult(evicted=("a/x/2",)), CycleResult())


def found(expect: Expect) -> list[str]:
    return differences(expect, ScenarioResult("lab", CYCLES, PODS))


@pytest.mark.parametrize(
    "expected",
    [
        Expectation(),
        Expectation(running=2, pending=1, nodes=("n1", "n0")),
        Expectation(reason=ReasonCode.WAITING_FOR_EVICTION, evicted_by="b"),
    ],
)
def test_a_workload_as_expected(expected: Expectation) -> None:
    assert found(Expect(workloads={"a": expected})) == []


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (Expectation(status="running"), "a/x/2: is waiting (Waits for b.), running expected"),
        (Expectation(node="n0"), "a/x/1: is running on n1 [2], n0 expected"),
        (Expectation(running=3), "a: 2 pods are running, 3 expected"),
        (Expectation(pending=0), "a: 1 pods are pending, 0 expected"),
        (Expectation(nodes=("n0",)), "a: runs on n0, n1, n0 expected"),
        (Expectation(nodes=("n0", "n0")), "a: runs on n0, n1, n0, n0 expected"),
        (
            Expectation(reason=ReasonCode.INSUFFICIENT_CAPACITY),
            "a: has the reason waiting_for_eviction, insufficient_capacity expected",
        ),
        (Expectation(evicted_by="c"), "a: was evicted by b, c expected"),
    ],
)
def test_a_workload_that_differs(expected: Expectation, answer: str) -> None:
    assert found(Expect(workloads={"a": expected})) == [answer]


def test_a_node_is_held_against_running_pods_only() -> None:
    assert found(Expect(workloads={"b": Expectation(status="pending", node="n0")})) == []


@pytest.mark.parametrize(
    ("pod", "expected", "answer"),
    [
        ("a/x/0", Expectation("running", "n0", gpus=(1, 0)), []),
        ("a/x/2", Expectation("pending"), []),
        ("b/x/0", Expectation("waiting"), ["b/x/0: is pending (Full.), waiting expected"]),
        ("a/x/0", Expectation("pending"), ["a/x/0: is running on n0 [0, 1], pending expected"]),
        ("b/x/0", Expectation("running", "n0"), ["b/x/0: is pending (Full.), running expected on n0"]),
        ("a/x/0", Expectation(gpus=(0,)), ["a/x/0: has devices [0, 1], [0] expected"]),
        (
            "a/x/0",
            Expectation(reason=ReasonCode.INSUFFICIENT_CAPACITY),
            ["a/x/0: has the reason none, insufficient_capacity expected"],
        ),
        ("a/x/0", Expectation(evicted_by="b"), ["a/x/0: was evicted by no workload, b expected"]),
        ("c/x/0", Expectation(), ["c/x/0: there is no such pod"]),
    ],
)
def test_a_pod(pod: str, expected: Expectation, answer: list[str]) -> None:
    assert found(Expect(pods={pod: expected})) == answer


def test_evictions_of_all_cycles_count() -> None:
    assert found(Expect(max_evictions=1)) == []
    assert found(Expect(max_evictions=0)) == ["1 evictions (a/x/2), at most 0 expected"]


def test_what_moves_after_the_cycles_is_not_stable() -> None:
    assert found(Expect(cycles=1)) == ["not stable: in cycle 2 a/x/2 was evicted"]
    assert found(Expect(cycles=2)) == []
