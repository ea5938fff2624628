"""The outbox of notifications: written with the events, kept through kill -9, and bounded."""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.store.fixtures import NOW_S, end, opened, submitted

from weir.model.notifications import NotificationRule, OutboxMessage
from weir.state.events import WorkloadOutcome
from weir.store.errors import NoSuchRule, TooManyRules
from weir.store.notifications import outbox
from weir.store.notifications.outbox import KEPT_S
from weir.store.notifications.rules import topics_of
from weir.store.records import HistoryEvent
from weir.store.store import Store


def rule(
    project: str | None = "vision", topics: Sequence[str] = ("end",), **words: object
) -> NotificationRule:
    return NotificationRule(
        project=project, channel="desktop", topics=tuple(topics), target="", **{"user": "ann", **words}
    )


def told(store: Store, id_: int, now_s: float = NOW_S + 1000) -> list[str]:
    """Take and confirm everything that a rule would send now."""
    sentences = []
    while (message := claimed(store, id_, now_s)) is not None:
        sentences += [notification.sentence for notification in message.notifications]
        store.outbox.delivered(message, now_s).result()
    return sentences


def claimed(store: Store, id_: int, now_s: float = NOW_S + 1000) -> OutboxMessage | None:
    store.events.page(limit=1)  # what was recorded is stored then
    return store.outbox.claim(store.outbox.rules.index.rules[id_], now_s).message


@pytest.mark.parametrize(
    ("kind", "numbers", "topics"),
    [
        ("started", {}, {"start"}),
        ("ended", {"how": "succeeded"}, {"end"}),
        ("ended", {"how": "failed"}, {"end", "failure"}),
        ("ended", {"how": "stopped", "rule": "withdrawn"}, {"end"}),
        ("ended", {"how": "stopped", "rule": "max_runtime"}, {"end", "failure"}),
        ("stopping", {"rule": "reclaim_quota"}, {"eviction"}),
        ("stopping", {"rule": "gang_failed"}, set()),
        ("idle_warning", {}, {"idle", "warning"}),
        ("protection_lost", {}, {"idle", "warning"}),
        ("idle_suspended", {}, {"idle"}),
        ("lifetime_warning", {}, {"warning"}),
        ("quota_met", {}, {"quota"}),
        ("node", {}, {"maintenance"}),
        ("submitted", {}, set()),
    ],
)
def test_topics(kind: str, numbers: dict[str, object], topics: set[str]) -> None:
    assert topics_of(HistoryEvent(NOW_S, kind, "", numbers=numbers)) == topics


def test_an_end_and_its_notification_are_one_transaction(store: Store) -> None:
    project, person, other = (
        store.outbox.rules.add(added, 10).id
        for added in (rule(topics=["failure"]), rule(None, user="ann"), rule(None, user="bob"))
    )
    store.workloads.submit(submitted("train")).result()
    store.journal.keep([end("train", how=WorkloadOutcome.FAILED)], {})
    store.journal.keep([end("train", how=WorkloadOutcome.FAILED)], {})  # reported again
    assert (
        told(store, project) == told(store, person) == ["train failed after waiting for 1m, without running."]
    )
    assert told(store, other) == []


def test_a_broken_commit_leaves_no_notification(store: Store) -> None:
    id_ = store.outbox.rules.add(rule(topics=["quota"]), 10).id

    def breaks(connection: object) -> None:
        store.events.write(connection, [HistoryEvent(NOW_S, "quota_met", "lost", project="vision")])
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        store._database.write(breaks).result()
    assert told(store, id_) == []
    store.events.record([HistoryEvent(NOW_S, "quota_met", "kept", project="vision")])
    assert told(store, id_) == ["kept"]


def test_a_message_keeps_its_key_and_its_notifications(store: Store) -> None:
    id_ = store.outbox.rules.add(rule(topics=["quota"]), 10).id
    store.events.record(
        [HistoryEvent(NOW_S, "quota_met", str(index), project="vision") for index in range(150)]
    )
    first = claimed(store, id_)
    assert first is not None
    assert first.size == len(first.notifications) == 100
    store.outbox.retry(first, NOW_S + 2000, "it fails").result()
    second = claimed(store, id_)
    assert second is not None
    assert (second.size, second.key == first.key) == (50, False)
    store.outbox.delivered(second, NOW_S + 1000).result()
    assert store.outbox.claim(rule(id=id_), NOW_S + 1000).next_s == NOW_S + 2000
    again = claimed(store, id_, NOW_S + 2000)
    assert again is not None
    assert (again.key, again.notifications, again.attempts) == (first.key, first.notifications, 1)
    assert store.outbox.pending_of([id_]) == {id_: (100, 0, "it fails")}


def test_a_receiver_that_refuses_all_messages_gets_a_bounded_number(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MESSAGE_SIZE_MAX", 1)
    id_ = store.outbox.rules.add(rule(topics=["quota"]), 10).id
    store.events.record(
        [HistoryEvent(NOW_S, "quota_met", str(index), project="vision") for index in range(5000)]
    )
    made = 0
    while (message := claimed(store, id_)) is not None:
        made += 1
        store.outbox.retry(message, NOW_S + 9000, "no").result()
    assert made == outbox.TRIED_MAX


def test_the_queue_of_a_rule_is_bounded_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "QUEUED_MAX", 3)
    id_ = store.outbox.rules.add(rule(topics=["quota"]), 10).id
    for index in range(5):
        store.events.record([HistoryEvent(NOW_S, "quota_met", str(index), project="vision")])
    store.events.page()
    assert store.outbox.pending_of([id_]) == {id_: (3, 2, "")}
    assert told(store, id_) == ["0", "1", "2"]
    store.events.record([HistoryEvent(NOW_S, "quota_met", "later", project="vision")])
    assert told(store, id_) == ["later"]


def test_rules_are_bounded_and_go_with_their_project_and_what_they_would_send(store: Store) -> None:
    ids = [store.outbox.rules.add(rule(topics=["quota"]), 2).id for _ in range(2)]
    with pytest.raises(TooManyRules, match="ann has 2 notifications"):
        store.outbox.rules.add(rule(), 2)
    store.events.record([HistoryEvent(NOW_S, "quota_met", "x", project="vision")])
    store.outbox.rules.remove(ids[0])
    with pytest.raises(NoSuchRule):
        store.outbox.rules.remove(ids[0])
    assert store.outbox.waiting() == [ids[1]]
    store.delete_queue("vision")
    assert (store.outbox.rules.index.rules, store.outbox.waiting()) == ({}, [])
    assert store.outbox.rules.add(rule(), 2).id > ids[1], "a number is never given twice"


def test_old_messages_are_deleted(store: Store) -> None:
    id_ = store.outbox.rules.add(rule(topics=["quota"]), 10).id
    store.events.record([HistoryEvent(NOW_S, "quota_met", "x", project="vision")])
    assert told(store, id_) == ["x"]
    assert store.outbox.tidy(NOW_S + KEPT_S) == 0
    assert store.outbox.messages([id_]).total == 1
    assert store.outbox.tidy(NOW_S + 2000 + KEPT_S) == 1
    assert store.outbox.messages([id_]).total == 0


WRITES = """
import sys
from pathlib import Path
from tests.unit.store.fixtures import opened, NOW_S
from tests.unit.store.notifications.test_outbox import rule, told
from weir.store.records import HistoryEvent
with opened(Path(sys.argv[1])) as store:
    ids = list(store.outbox.rules.index.rules) or [store.outbox.rules.add(rule(topics=["quota"]), 10).id]
    for at in range(10_000):
        store.events.record([HistoryEvent(NOW_S, "quota_met", f"{sys.argv[2]}-{at}", project="vision")])
        if at % 7 == 0:
            for sentence in told(store, ids[0]):
                print(sentence, flush=True)
"""


def test_kill_9_loses_no_notification_of_a_stored_event(tmp_path: Path) -> None:
    confirmed: list[str] = []
    for turn in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITES, str(tmp_path), str(turn)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[4],
        )
        assert process.stdout is not None
        for _ in range(50 + 13 * turn):
            confirmed.append(process.stdout.readline().strip())
        process.kill()
        rest, _ = process.communicate()
        confirmed += [line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    with opened(tmp_path) as store:
        (id_,) = store.outbox.rules.index.rules
        rest_of_it = told(store, id_)
    raw = sqlite3.connect(tmp_path / "weir.db")
    stored = [row[0] for row in raw.execute("SELECT sentence FROM events WHERE kind = 'quota_met'")]
    marked = raw.execute("SELECT count(*) FROM notifications").fetchone()[0]
    raw.close()
    assert marked == len(stored) == len(set(stored))
    assert set(confirmed) <= set(stored)
    assert len(confirmed) == len(set(confirmed)), "what is confirmed isn't sent again"
    assert not set(rest_of_it) & set(confirmed)
