"""Turns of namespaces in a queue."""

from collections import Counter, defaultdict
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from weir.control.fair_queue import FairQueue, Turns

NAMESPACES = st.sampled_from("abcd")


def test_an_entry_waits_for_one_entry_of_each_other_namespace() -> None:
    queue: FairQueue[str] = FairQueue()
    for index in range(1500):
        queue.add("large", f"large-{index}")
    queue.add("other", "other-0")
    queue.add("third", "third-0")
    assert [queue.take() for _ in range(5)] == ["large-0", "other-0", "third-0", "large-1", "large-2"]


def test_a_namespace_that_comes_back_begins_at_the_end_of_the_round() -> None:
    queue: FairQueue[str] = FairQueue()
    for entry in ("a0", "b0", "b1", "c0"):
        queue.add(entry[0], entry)
    assert queue.take() == "a0"
    queue.add("a", "a1")
    assert [queue.take() for _ in range(5)] == ["b0", "c0", "a1", "b1", None]


def test_an_entry_that_is_queued_keeps_its_place() -> None:
    queue: FairQueue[str] = FairQueue()
    for entry in ("a0", "a1", "a0"):
        queue.add("a", entry)
    assert len(queue) == 2
    assert [queue.take(), queue.take(), queue.take()] == ["a0", "a1", None]


def test_the_namespace_with_the_most_entries_loses_one_of_a_full_queue() -> None:
    queue: FairQueue[str] = FairQueue()
    for index in range(8):
        queue.add("large", f"large-{index}")
    queue.add("small", "small-0")
    assert queue.to_shorten("small") == queue.to_shorten("new") == queue.to_shorten("large") == "large"
    assert queue.take_oldest("large") == "large-0"
    assert [*queue.first_of_lines()] == ["large-1", "small-0"]


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "remove"]), NAMESPACES, st.integers(0, 5))))
def test_each_entry_leaves_once_in_the_order_of_its_namespace_and_within_its_turn(
    steps: list[tuple[str, str, int]],
) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    lines: dict[str, list[tuple[str, int]]] = defaultdict(list)
    passed: dict[str, dict[str, int]] = {}  # entries of the others since a namespace got its last turn
    for step, namespace, number in steps:
        entry, line = (namespace, number), lines[namespace]
        if step == "add" and entry not in line:
            line.append(entry)
            queue.add(namespace, entry)
            passed.setdefault(namespace, defaultdict(int))
        elif step == "remove":
            queue.remove(namespace, entry)
            if entry in line:
                line.remove(entry)
        elif step == "take":
            taken = queue.take()
            assert (taken is None) == (not any(lines.values()))
            if taken is not None:
                assert lines[taken[0]].pop(0) == taken
                passed[taken[0]] = defaultdict(int)
                for other in passed.values():
                    other[taken[0]] += 1
        for gone in [gone for gone in passed if not lines[gone]]:
            del passed[gone]
        assert all(count <= 1 for key, other in passed.items() for by, count in other.items() if by != key)
        assert len(queue) == sum(map(len, lines.values()))
    assert len([*queue.first_of_lines()]) == sum(map(bool, lines.values())), "no line without entries is kept"


def test_each_namespace_has_its_turn_where_few_are_chosen_at_a_time() -> None:
    turns, waiting = Turns(), [f"{namespace}{index}" for namespace in "abcde" for index in range(10)]
    taken: list[str] = []
    for _ in range(5):
        chosen = list(islice(turns.take(waiting, lambda entry: entry[0]), 2))
        waiting = [entry for entry in waiting if entry not in chosen]
        taken += chosen
    assert taken == ["a0", "b0", "c0", "d0", "e0", "a1", "b1", "c1", "d1", "e1"]
    waiting.append("f0")
    assert [*islice(turns.take(waiting, lambda entry: entry[0]), 6)] == ["a2", "b2", "c2", "d2", "e2", "f0"]
    assert sorted(turns.take(waiting, lambda entry: entry[0])) == sorted(waiting)


def test_namespaces_that_come_and_go_leave_turns_to_one_that_stays() -> None:
    turns, served = Turns(), Counter[str]()
    due = dict.fromkeys(("constant/0", "constant/1", *(f"{index}/0" for index in range(6))), 0)
    for now in range(60):
        free = [name for name, due_s in due.items() if due_s <= now]
        for name in islice(turns.take(free, lambda name: name.partition("/")[0]), 2):
            served[name.partition("/")[0]] += 1
            due.pop(name)  # at the end of those that are due
            due[name] = now + 2
    assert served["constant"] >= 60 * 2 // 7 - 1, "its share of the turns of seven namespaces"
