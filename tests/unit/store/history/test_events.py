"""Events, in the order in which they were written down."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from tests.unit.store.fixtures import NOW_S, end, submitted

from weir.store.errors import NameTaken
from weir.store.records import HistoryEvent
from weir.store.store import Store


def happening(after_s: int, **words: object) -> HistoryEvent:
    """The n-th thing that happens."""
    return HistoryEvent(NOW_S + after_s, "noted", f"thing {after_s}", **words)  # type: ignore[arg-type]


def settle(store: Store) -> None:
    """Wait until what is queued is written: the writer takes one thing after the other."""
    store.set_queue(store.queues()[-1])


def test_events_are_paged_newest_first(store: Store) -> None:
    """By number; those that come meanwhile disturb nothing."""
    store.events.record([happening(after_s) for after_s in range(10)])
    settle(store)
    seen, after = [], None
    while True:
        page = store.events.page(after=after, limit=3)
        seen += [event.sentence for event in page.items]
        after = page.after
        if after is None:
            break
        store.events.record([happening(100)])
        settle(store)
    assert seen == [f"thing {after_s}" for after_s in reversed(range(10))]


def test_events_are_found_by_what_they_are_about(store: Store) -> None:
    """Events of a name are those of all workloads that had it."""
    uids = []
    for turn in range(2):
        uids.append(store.workloads.submit(submitted("train", at_s=NOW_S + 100 * turn)).result().launch.uid)
        store.events.record(
            [
                happening(
                    turn, uid=uids[-1], workload="train", project="vision", pod="0/0", numbers={"at": turn}
                )
            ]
        )
        store.journal.keep([end("train", NOW_S + 100 * turn + 1)], {})
    store.events.record([happening(7, project="speech")])
    settle(store)
    assert [event.kind for event in store.events.page(workload="train").items] == ["ended", "noted"] * 2
    assert [event.numbers.get("at") for event in store.events.page(uid=uids[0]).items] == [None, 0]
    assert store.events.page(uid=uids[0]).items[1].pod == "0/0"
    assert [event.sentence for event in store.events.page(projects=["speech"]).items] == ["thing 7"]
    assert store.events.page(visible={"speech": 0.0}).total == 1
    assert store.events.page(visible={}).total == 0
    assert store.events.page(kinds=["ended"]).total == 2
    assert store.events.page(kinds=["ended", "noted"], projects=["speech", "vision"]).total == 5


def test_events_recorded_before_are_read(store: Store) -> None:
    """The writer is held up, so that only a reader who waits for it can find them."""
    holds = Event()
    store._database.write(lambda _: holds.wait(120), durable=False)
    store.events.record([happening(1)])
    with ThreadPoolExecutor(1) as threads:
        page = threads.submit(store.events.page)
        assert not page.done()
        holds.set()
        assert [event.sentence for event in page.result(120).items] == ["thing 1"]


def test_who_listens_hears_everything_once_and_in_order(store: Store) -> None:
    """Ends too; and nothing of what was refused."""
    heard: list[HistoryEvent] = []
    stop = store.events.listen(heard.extend)
    store.workloads.submit(submitted("train")).result()
    store.events.record([happening(1)])
    with pytest.raises(NameTaken):
        store.workloads.submit(submitted("train")).result()
    store.journal.keep([end("train")], {})
    stop()
    store.events.record([happening(2)])
    settle(store)
    assert [event.kind for event in heard] == ["noted", "ended"]
    assert heard == list(reversed(store.events.page().items))[:2]
    assert store.events.page().items[0].sentence == "thing 2", "it is recorded after the listener left"


def test_listener_that_fails_disturbs_no_other(store: Store) -> None:
    """Committed events stay committed, once, and the next listener gets them."""
    heard: list[HistoryEvent] = []

    def fails(_: Sequence[HistoryEvent]) -> None:
        raise RuntimeError("can't hear")

    store.events.listen(fails)
    store.events.listen(heard.extend)
    store.workloads.submit(submitted("train")).result()
    store.journal.keep([end("train")], {})
    assert len(heard) == store.events.page().total == 1
