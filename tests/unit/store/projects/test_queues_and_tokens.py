"""The quota tree, and who may ask."""

from pathlib import Path

import pytest
from tests.unit.store.fixtures import end, opened, submitted

from weir.model.queues import Queue, QueueTimeLimits
from weir.store.errors import NoSuchQueue, NoSuchToken, QueueInUse, QueueUnsound
from weir.store.projects.tokens import token_hash
from weir.store.records import MembershipRecord
from weir.store.store import Store


def test_the_tree_has_parents_before_children(store: Store) -> None:
    """However it was made; with all that was said of it."""
    store.set_queue(Queue("company", None, False, created_s=50.0))
    tree = store.set_queue(Queue("lab", "company", False, {"gpu": 6000}, {"cpu": 8}, {"gpu": 2.5}, 7, 9.0))
    assert [queue.name for queue in tree] == ["speech", "company", "lab", "vision"]
    assert tree[2] == Queue("lab", "company", False, {"gpu": 6000}, {"cpu": 8}, {"gpu": 2.5}, 7, 9.0)
    times = QueueTimeLimits(idle_limit_s=60.0, stop_grace_s=0.0)
    store.set_queue(Queue("vision", "lab", times=times))
    assert store.queues()[3].times == times


def test_tree_stays_a_tree(store: Store) -> None:
    """Other changes are refused, and change nothing."""
    before = store.queues()
    for queue in (
        Queue("new", "nobody"),
        Queue("new", "vision"),
        Queue("lab", "lab", False),
    ):
        with pytest.raises(QueueUnsound):
            store.set_queue(queue)
    store.set_queue(Queue("inner", "lab", False))
    with pytest.raises(QueueUnsound, match="above itself"):
        store.set_queue(Queue("lab", "inner", False))
    with pytest.raises(QueueInUse):
        store.set_queue(Queue("lab", None, True))
    assert store.delete_queue("inner") == before


def test_queue_that_is_used_cant_be_deleted(store: Store) -> None:
    """A department with projects, a project with workloads that aren't over."""
    with pytest.raises(QueueInUse, match="vision is in it"):
        store.delete_queue("lab")
    store.workloads.submit(submitted("train")).result()
    with pytest.raises(QueueInUse, match="train isn't over"):
        store.delete_queue("vision")
    store.journal.keep([end("train")], {})
    assert [queue.name for queue in store.delete_queue("vision")] == ["lab", "speech"]
    with pytest.raises(NoSuchQueue):
        store.delete_queue("vision")


def test_token_is_known_by_its_text_alone(tmp_path: Path) -> None:
    """Only the hash of a token is in the database."""
    with opened(tmp_path) as store:
        admin, text = store.tokens.make("ann", "admin")
        member, other = store.tokens.make("bob", "member", ["vision"])
        assert text != other
        assert store.tokens.with_hash(token_hash(text)) == admin
        assert store.tokens.with_hash(token_hash(text + "x")) is None
        assert store.tokens.all() == (admin, member)
    with opened(tmp_path) as store:
        assert store.tokens.with_hash(token_hash(other)) == member
        store.tokens.delete(member.id)
        assert store.tokens.with_hash(token_hash(other)) is None
        with pytest.raises(NoSuchToken):
            store.tokens.delete(member.id)
    for file in tmp_path.iterdir():
        assert text.encode() not in file.read_bytes()
        assert other.encode() not in file.read_bytes()


def test_a_project_and_its_first_member_are_made_together_or_not_at_all(store: Store) -> None:
    member = MembershipRecord("team", "everyone", "", "member")
    with pytest.raises(QueueUnsound):
        store.set_queue(Queue("team", parent="no-such-department"), member)
    assert not store.memberships
    store.set_queue(Queue("team"), member)
    assert store.memberships == (member,)


def test_use_of_a_token_after_a_clock_ahead_was_set_back_is_noted(store: Store) -> None:
    token, _ = store.tokens.make("ann", "admin")
    for at_s, noted_s in ((9e6, 9e6), (9e6 + 30, 9e6), (9e6 - 30, 9e6), (1e6, 1e6), (1e6 + 90, 1e6 + 90)):
        store.tokens.used(token.id, at_s)
        assert [row.used_s for row in store.tokens.all()] == [noted_s]
