"""Versions of queues."""

from weir.state.versions import changed_since, versions_of


def test_positions_that_differ_are_found_in_order() -> None:
    """A copy keeps the versions of before."""
    now = versions_of(4)
    before = now[:]
    now[3] += 1
    now[1] += 2
    assert changed_since(now, before) == [1, 3]
    assert changed_since(now, now[:]) == []


def test_every_queue_differs_from_an_unknown_version() -> None:
    """A tree without queues has no versions."""
    assert changed_since(versions_of(3), versions_of(3, -1)) == [0, 1, 2]
    assert changed_since(versions_of(0), versions_of(0, -1)) == []
