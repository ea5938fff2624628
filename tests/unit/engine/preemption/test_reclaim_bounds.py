"""The bound of what may be taken never says less than what can be, and says little of who gives little."""

from itertools import chain, combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weir.engine.preemption.reclaim_bounds import VictimPods, max_pods

NODES = 3
Job = tuple[int, dict[int, int]]
"""A project, and devices by node."""


def rows(jobs: list[Job]) -> VictimPods:
    """Each job as its pods, one a node."""
    pods = [
        (node, held, sum(on.values()), project) for project, on in jobs for node, held in sorted(on.items())
    ]
    node, whole, devices, project = zip(*pods, strict=True) if pods else ((),) * 4
    return VictimPods(
        np.array(node, np.int64),
        np.array(whole, np.int64),
        np.array(devices, np.float64),
        np.array(project, np.int64),
    )


def may_all_go(jobs: tuple[Job, ...], over: list[float]) -> bool:
    """Return True if the jobs can stop in some order while each project is over its quota: the largest last."""
    for project, most in enumerate(over):
        sizes = sorted(sum(on.values()) for of, on in jobs if of == project)
        if sizes and sum(sizes[:-1]) >= most:
            return False
    return True


def pods_found(free: list[int], each: int, open_: list[bool], jobs: list[Job], over: list[float]) -> int:
    """Return the most pods that fit with any set of victims."""
    best = 0
    for going in chain.from_iterable(combinations(jobs, count) for count in range(len(jobs) + 1)):
        if may_all_go(going, over):
            left = [free[node] + sum(on.get(node, 0) for _, on in going) for node in range(NODES)]
            best = max(best, sum(have // each for have, may in zip(left, open_, strict=True) if may))
    return best


job = st.tuples(
    st.integers(0, 2), st.dictionaries(st.integers(0, NODES - 1), st.integers(1, 4), min_size=1, max_size=2)
)


@given(
    st.lists(st.integers(0, 3), min_size=NODES, max_size=NODES),
    st.integers(1, 6),
    st.lists(st.booleans(), min_size=NODES, max_size=NODES),
    st.lists(job, max_size=7),
    st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.5, float("inf")]), min_size=3, max_size=3),
)
def test_it_is_never_below_what_can_be_had(
    free: list[int], each: int, open_: list[bool], jobs: list[Job], over: list[float]
) -> None:
    """Against every set of jobs that may go."""
    most = max_pods(np.array(free, np.int64), each, np.array(open_), rows(jobs), np.array(over))
    assert most >= pods_found(free, each, open_, jobs, over)


def test_a_project_hardly_over_its_quota_gives_one_workload() -> None:
    """Two nodes are full of its workloads, each as large as a node: one may go, and no second."""
    jobs: list[Job] = [(0, {0: 8}), (0, {1: 8})]
    none, all_ = np.zeros(NODES, np.int64), np.ones(NODES, np.bool_)
    assert max_pods(none, 8, all_, rows(jobs), np.array([1.0])) == 1
    assert max_pods(none, 8, all_, rows(jobs), np.array([9.0])) == 2


def test_on_one_node_it_gives_what_it_is_over_and_no_more() -> None:
    """Eight workloads of a device each on a node: of a project three over its quota, three may go."""
    jobs: list[Job] = [(0, {0: 1})] * 8
    none, all_ = np.zeros(NODES, np.int64), np.ones(NODES, np.bool_)
    assert max_pods(none, 4, all_, rows(jobs), np.array([3.0])) == 0
    assert max_pods(none, 3, all_, rows(jobs), np.array([3.0])) == 1


def test_one_that_spans_nodes_frees_them_all() -> None:
    """The last to go may be a gang, which leaves both its nodes."""
    jobs: list[Job] = [(0, {0: 8, 1: 8})]
    none, all_ = np.zeros(NODES, np.int64), np.ones(NODES, np.bool_)
    assert max_pods(none, 8, all_, rows(jobs), np.array([1.0])) == 2
