"""Stored records of the backend, found again."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.store.fixtures import NOW_S, end, opened, submitted

from weir.control.port import (
    LifecycleCause,
    LifecycleRule,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    WorkloadProgress,
)
from weir.model.nodes import Toleration
from weir.model.queues import Queue, QueueTimeLimits
from weir.model.workloads import (
    NodeAffinityRule,
    NodeExpression,
    PodAffinityRule,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
    WorkloadType,
)
from weir.state.events import Nominated, Placement, PodKey, WorkloadOutcome
from weir.store.database.codec import QUEUE, WORKLOAD, packed
from weir.store.store import Store

NOMINATION = Nominated("train", (Placement(PodKey("train", 0, 0), "node", (0, 1)),), 3.0, ("victim",))
STATUS = WorkloadProgress(4, 3, 1, 12.5, 99.0, 2)


def test_everything_is_found_again(tmp_path: Path) -> None:
    """The next server that opens the database finds it."""
    with opened(tmp_path) as store:
        store.workloads.submit(submitted("train")).result()
        store.workloads.submit(submitted("other")).result()
        store.journal.keep([ReserveNomination(NOMINATION), SaveProgress("train", STATUS)], {"train": 8.0})
        store.journal.keep([ReserveNomination(NOMINATION), SaveProgress("train", STATUS)], {"train": 8.0})
        store.workloads.suspend("train", "by ann").result()
    with opened(tmp_path) as store:
        kept, other = store.journal.workloads()
        assert (kept.status, kept.nomination, kept.saved_s, kept.suspended) == (
            STATUS,
            NOMINATION,
            8.0,
            "by ann",
        )
        assert (other.status, other.nomination, other.saved_s) == (WorkloadProgress(), None, None)
        assert kept.workload == submitted("train").workload
        assert [queue.name for queue in store.journal.queues()] == ["lab", "speech", "vision"]
        store.journal.keep([ReleaseNomination("train"), ReleaseNomination("nobody")], {"nobody": 1.0})
        assert store.journal.workloads()[0].nomination is None


def test_end_is_written_once_with_its_event(store: Store) -> None:
    """Repeated reports change nothing."""
    uid = store.workloads.submit(submitted("train")).result().launch.uid
    cause = LifecycleCause(LifecycleRule.IDLE, "It idled.", {"idle_s": 600.0})
    over = end(
        "train",
        how=WorkloadOutcome.STOPPED,
        sentence="It idled.",
        ran_s=50.0,
        started_s=NOW_S + 5,
        first_started_s=NOW_S + 5,
        cause=cause,
        wall_s=70.0,
    )
    store.journal.keep([over, over], {})
    store.journal.keep([over], {"train": 70.0})
    assert store.journal.workloads() == []
    (event,) = store.events.page(workload="train").items
    assert (event.kind, event.uid, event.project, event.sentence) == (
        "ended",
        uid,
        "vision",
        "train stopped after running for 1m10s.",  # that it idled is an event of its own
    )
    assert event.numbers == {"how": "stopped", "ran_s": 70.0, "kept_s": 50.0, "rule": "idle", "idle_s": 600.0}
    workload = store.workloads.newest("train")
    assert workload is not None
    assert (workload.row.status, workload.row.ran_s, workload.row.kept_s) == ("stopped", 70.0, 50.0)


def test_a_late_end_is_not_that_of_the_next_workload_of_that_name(store: Store) -> None:
    """A name may be used again."""
    store.workloads.submit(submitted("train")).result()
    over = end("train")
    store.journal.keep([over], {})
    store.workloads.submit(submitted("train", at_s=NOW_S + 100)).result()
    store.journal.keep([over], {})
    assert len(store.journal.workloads()) == 1


@pytest.mark.parametrize(
    ("started_s", "ran_s", "sentence"),
    [
        (NOW_S, 7200.0, "train succeeded after running for 2h."),
        (NOW_S + 3600, 3600.0, "train succeeded after running for 1h and waiting for 1h."),
        (None, 0.0, "train succeeded after waiting for 2h, without running."),
    ],
)
def test_end_without_a_sentence_gets_one_with_run_time_and_wait(
    store: Store, started_s: float | None, ran_s: float, sentence: str
) -> None:
    store.workloads.submit(submitted("train")).result()
    over = end("train", NOW_S + 7200, first_started_s=started_s, wall_s=ran_s)
    store.journal.keep([over], {})
    assert store.events.page().items[0].sentence == sentence


def test_nothing_is_kept_of_what_fails(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end and its event are one: without the event there is no end."""
    store.workloads.submit(submitted("train")).result()

    def fails(*_: object) -> None:
        raise RuntimeError("no event")

    monkeypatch.setattr(store.events, "write", fails)
    with pytest.raises(RuntimeError, match="no event"):
        store.journal.keep([SaveProgress("train", STATUS), end("train")], {})
    (kept,) = store.journal.workloads()
    assert kept.status == WorkloadProgress()


NAMES = st.text(min_size=1, max_size=8)
PAIRS = st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple)
TIMES = st.none() | st.floats(0, 1e9)
TOLERATIONS = st.builds(
    Toleration, NAMES, st.sampled_from(["Equal", "Exists"]), NAMES, st.sampled_from([None, "NoExecute"])
)
EXPRESSIONS = st.builds(
    NodeExpression, NAMES, st.sampled_from(["In", "Exists", "Gt"]), st.lists(NAMES, max_size=2).map(tuple)
)
TERMS = st.lists(st.lists(EXPRESSIONS, max_size=2).map(tuple), max_size=2).map(tuple)
POD_RULES = st.builds(
    PodAffinityRule,
    st.sampled_from(["affinity", "anti_affinity", "spread"]),
    NAMES,
    NAMES,
    st.integers(0, 100),
    st.integers(1, 9),
)
REQUESTS = st.builds(
    Request,
    devices=st.integers(0, 8),
    share_milli=st.integers(0, 1000),
    gpu_memory=st.integers(0, 1 << 40),
    further=st.lists(st.tuples(NAMES, st.integers(0, 1 << 60)), max_size=2).map(tuple),
    gpu_models=st.lists(NAMES, max_size=2).map(tuple),
    node_selector=PAIRS,
    nodes=st.none() | st.lists(NAMES, max_size=2).map(tuple),
    tolerations=st.lists(TOLERATIONS, max_size=2).map(tuple),
    rules=st.lists(st.builds(NodeAffinityRule, TERMS, st.integers(0, 100)), max_size=2).map(tuple),
    marks=st.lists(NAMES, max_size=2).map(tuple),
    pod_rules=st.lists(POD_RULES, max_size=2).map(tuple),
)
WORKLOADS = st.builds(
    Workload,
    name=NAMES,
    project=NAMES,
    groups=st.lists(st.builds(PodGroup, NAMES, REQUESTS, st.integers(1, 9)), min_size=1, max_size=3).map(
        tuple
    ),
    min_pods=st.integers(0, 9),
    submitted_s=st.floats(0, 1e10),
    type=st.sampled_from(WorkloadType),
    max_runtime_s=TIMES,
    topology=st.none() | st.builds(TopologyRequest, NAMES, NAMES | st.none()),
    user=NAMES,
    idle_limit_s=TIMES,
    grace_s=TIMES,
    retries=st.none() | st.integers(0, 9),
)
AMOUNTS = st.dictionaries(NAMES, st.integers(0, 1 << 62), max_size=2)
QUEUES = st.builds(
    Queue,
    NAMES,
    st.none() | NAMES,
    st.booleans(),
    AMOUNTS,
    AMOUNTS,
    st.dictionaries(NAMES, st.floats(0, 1e9), max_size=2),
    st.integers(-9, 999),
    st.floats(0, 1e10),
    st.builds(QueueTimeLimits, TIMES, TIMES, TIMES, TIMES),
)


@given(WORKLOADS, QUEUES)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nouns_are_read_as_they_were_written(workload: Workload, queue: Queue) -> None:
    """Every one there may be."""
    assert WORKLOAD.validate_json(packed(WORKLOAD, workload)) == workload
    assert QUEUE.validate_json(packed(QUEUE, queue)) == queue
