"""Workloads as people submit, stop and list them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.fixtures import NOW_S, end, opened, submitted

import weir.store.workloads.table as workloads
from weir.model.workloads import WorkloadType
from weir.state.events import WorkloadOutcome
from weir.store.errors import NameTaken, NoSuchQueue, NoSuchWorkload, WorkloadOver
from weir.store.records import WorkloadFilter
from weir.store.store import Store


def names(store: Store, wanted: WorkloadFilter | None = None, **words: object) -> list[str]:
    """The names on a page."""
    page = store.workloads.page(wanted or WorkloadFilter(), **words)  # type: ignore[arg-type]
    return [line.name for line in page.items]


def test_what_was_submitted_is_found_as_it_was_said(store: Store) -> None:
    """Find a submission again with all fields, and a number of its own."""
    asked = submitted("train-1")
    kept = store.workloads.submit(asked, {"project": "vision"}).result()
    workload = store.workloads.newest("train-1")
    assert workload is not None
    assert workload.record == kept
    assert workload.asked == {"project": "vision"}
    assert (kept.workload, kept.launch.command, kept.launch.environment) == (
        asked.workload,
        asked.launch.command,
        asked.launch.environment,
    )
    assert workload.row.status == "pending"
    assert store.workloads.get(kept.launch.uid) == workload
    assert store.workloads.newest("train-2") is None


def test_name_is_taken_until_its_workload_is_over(store: Store) -> None:
    """Then it may be used again, and names the newest."""
    first = store.workloads.submit(submitted("train")).result()
    with pytest.raises(NameTaken, match="train isn't over yet"):
        store.workloads.submit(submitted("train")).result()
    store.journal.keep([end("train")], {})
    second = store.workloads.submit(submitted("train", at_s=NOW_S + 100)).result()
    workload = store.workloads.newest("train")
    assert workload is not None
    assert workload.row.uid == second.launch.uid > first.launch.uid


def test_workload_needs_a_project(store: Store) -> None:
    """A department isn't one."""
    for project in ("nobody", "lab"):
        with pytest.raises(NoSuchQueue):
            store.workloads.submit(submitted("train", project)).result()


def test_number_is_never_given_again(tmp_path: Path) -> None:
    """Not even of a workload that was forgotten."""
    with opened(tmp_path) as store:
        first = store.workloads.submit(submitted("train")).result().launch.uid
        store.journal.keep([end("train")], {})
        assert store.tidy(NOW_S + 10 * 366 * 86400) > 0
        assert store.workloads.get(first) is None
    with opened(tmp_path) as store:
        assert store.workloads.submit(submitted("train")).result().launch.uid > first


def test_people_stop_suspend_and_resume(store: Store) -> None:
    """Orders are stored and delivered; the first withdrawal counts."""
    store.workloads.submit(submitted("train")).result()
    assert store.workloads.suspend("train", "by ann").result().suspended == "by ann"
    reason = store.workloads.page(WorkloadFilter()).items[0].reason
    assert reason is not None
    assert reason.sentence == "by ann"
    assert store.workloads.resume("train").result().suspended is None
    assert store.workloads.cancel("train", 5.0).result().withdrawn_s == 5.0
    assert store.workloads.cancel("train", 9.0).result().withdrawn_s == 5.0
    (kept,) = store.journal.workloads()
    assert kept.withdrawn_s == 5.0
    store.journal.keep([end("train", how=WorkloadOutcome.STOPPED)], {})
    with pytest.raises(WorkloadOver):
        store.workloads.suspend("train", "by ann").result()
    with pytest.raises(NoSuchWorkload):
        store.workloads.resume("other").result()


def test_many_threads_submit_at_once(store: Store) -> None:
    """Everyone gets a number of their own; of a name only one gets it."""

    def submit(index: int) -> int | None:
        try:
            return store.workloads.submit(submitted(f"train-{index % 150}")).result().launch.uid
        except NameTaken:
            return None

    with ThreadPoolExecutor(32) as threads:
        uids = list(threads.map(submit, range(300)))
    given_ = [uid for uid in uids if uid is not None]
    assert len(given_) == len(set(given_)) == 150
    assert sorted(kept.launch.uid for kept in store.journal.workloads()) == sorted(given_)


def test_pages_stay_as_they_are_while_workloads_come(store: Store) -> None:
    """Workloads that come meanwhile are newer than the page: none is shown twice or left out."""
    for index in range(25):
        store.workloads.submit(submitted(f"train-{index}")).result()
    seen, after = [], None
    for turn in range(100):
        page = store.workloads.page(WorkloadFilter(), after=after, limit=4)
        seen += [line.name for line in page.items]
        assert page.total == 25 + turn
        store.workloads.submit(submitted(f"late-{turn}")).result()
        after = page.after
        if after is None:
            break
    assert seen == [f"train-{index}" for index in reversed(range(25))]


def test_list_is_filtered(store: Store) -> None:
    """By each column, by part of a name in any case, and by whether it is over."""
    store.workloads.submit(submitted("train-a")).result()
    store.workloads.submit(submitted("Notebook_1", "speech", user="bob", type=WorkloadType.BUILD)).result()
    store.workloads.submit(submitted("old")).result()
    store.journal.keep([end("old", how=WorkloadOutcome.FAILED)], {})
    assert names(store) == ["Notebook_1", "train-a"]
    assert names(store, WorkloadFilter(ended=True)) == ["old", "Notebook_1", "train-a"]
    assert names(store, WorkloadFilter(live=False, ended=True)) == ["old"]
    store.workloads.submit(submitted("new", at_s=NOW_S + 60)).result()
    for ended in (False, True):
        page = store.workloads.page(WorkloadFilter(since_s=NOW_S + 60, ended=ended))
        assert ([row.name for row in page.items], page.total) == (["new"], 1)
    store.journal.keep([end("new", NOW_S + 90)], {})
    assert names(store, WorkloadFilter(since_s=NOW_S + 60, live=False, ended=True)) == ["new"]
    assert names(store, WorkloadFilter(projects=["speech"])) == ["Notebook_1"]
    assert names(store, WorkloadFilter(projects=[])) == []
    assert names(store, WorkloadFilter(types=["build"])) == ["Notebook_1"]
    assert names(store, WorkloadFilter(users=["bob", "eve"])) == ["Notebook_1"]
    assert names(store, WorkloadFilter(q="NOTE")) == ["Notebook_1"]
    assert names(store, WorkloadFilter(q="k_1")) == ["Notebook_1"]
    assert names(store, WorkloadFilter(q="%")) == []


@pytest.mark.parametrize("few", [0, 2, 100])
def test_ended_workloads_are_searched(store: Store, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """By a part of the name, the user or the project, however many there are."""
    monkeypatch.setattr(workloads, "FEW_MAX", few)
    for index in range(6):
        store.workloads.submit(
            submitted(f"job-{index}", ("vision", "speech")[index % 2], user=("Ann", "bob")[index // 3])
        ).result()
    kinds = (WorkloadOutcome.FAILED, WorkloadOutcome.SUCCEEDED)
    store.journal.keep([end(f"job-{index}", how=kinds[index % 2]) for index in range(5)], {})
    for part, matches in (("B-5", [5]), ("B-", range(6)), ("ann", [0, 1, 2]), ("eech", [1, 3, 5]), ("x", [])):
        page = store.workloads.page(WorkloadFilter(q=part, ended=True), limit=4)
        assert page.total == len(matches)
        assert [line.name for line in page.items] == [f"job-{index}" for index in sorted(matches)[::-1][:4]]
    assert names(store, WorkloadFilter(q="job", live=False, ended=True, statuses=["failed"])) == [
        *("job-4", "job-2", "job-0")
    ]
    assert names(store, WorkloadFilter(q="ann", ended=True, projects=["speech"])) == ["job-1"]


def test_the_list_shows_and_filters_the_given_statuses(store: Store) -> None:
    """The store doesn't follow pods: who asks says which run."""
    uids = {
        name: store.workloads.submit(submitted(name)).result().launch.uid for name in ("a", "b", "c", "d")
    }
    store.journal.keep([end("d")], {})
    live = {uids["a"]: "running", uids["c"]: "stopping"}
    assert [line.status for line in store.workloads.page(WorkloadFilter(), live=live).items] == [
        "stopping",
        "pending",
        "running",
    ]
    running = WorkloadFilter(statuses=["running", "succeeded"], ended=True)
    page = store.workloads.page(running, live=live, limit=1)
    assert ([line.name for line in page.items], page.total) == (["d"], 2)
    assert names(store, running, live=live, after=page.after) == ["a"]
    assert names(store, WorkloadFilter(statuses=["pending"]), live=live) == ["b"]
    assert names(store, WorkloadFilter(statuses=["failed"]), live=live) == []


@given(st.lists(st.sampled_from(["live", "succeeded", "failed"]), max_size=12), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_pages_together_are_the_list(tmp_path_factory: object, states: list[str], limit: int) -> None:
    """Whatever the size of a page."""
    with opened(tmp_path_factory.mktemp("store")) as store:  # type: ignore[attr-defined]
        for index, state in enumerate(states):
            store.workloads.submit(submitted(str(index))).result()
            if state != "live":
                store.journal.keep([end(str(index), how=WorkloadOutcome(state))], {})
        for wanted in (
            WorkloadFilter(ended=True),
            WorkloadFilter(statuses=["pending", "failed"], ended=True),
        ):
            whole = store.workloads.page(wanted, limit=1000)
            seen, after = [], None
            while True:
                page = store.workloads.page(wanted, after=after, limit=limit)
                assert page.total == whole.total == len(whole.items)
                seen += page.items
                after = page.after
                if after is None:
                    break
            assert seen == list(whole.items)
