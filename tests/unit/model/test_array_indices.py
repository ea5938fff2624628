"""Indices of arrays, as people write them."""

import tracemalloc

import pytest

from weir.model.array_indices import SIZE_MAX, read_indices, split_name


@pytest.mark.parametrize(
    ("written", "indices", "step", "at_once"),
    [
        ("0-4", (0, 1, 2, 3, 4), 1, None),
        ("1-10:4", (1, 5, 9), 4, None),
        ("1,3,7", (1, 3, 7), 1, None),
        ("7, 3, 1-3", (1, 2, 3, 7), 1, None),
        ("5", (5,), 1, None),
        ("1-500%20", tuple(range(1, 501)), 1, 20),
        ("0-6:2,1%2", (0, 1, 2, 4, 6), 1, 2),
    ],
)
def test_indices_are_read(written: str, indices: tuple[int, ...], step: int, at_once: int | None) -> None:
    found = read_indices(written)
    assert (tuple(found.indices), found.step, found.at_once) == (indices, step, at_once)
    assert len(found) == len(indices)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("", "can't be read: write indices such as 0-499"),
        ("a-b", "'a-b' can't be read"),
        ("1..5", "can't be read"),
        ("-5", "can't be read"),
        ("9-1", "9-1 goes down: write 1-9"),
        ("1-9:0", "a step of 0 goes nowhere"),
        ("1-9%", "has no number after %"),
        ("1-9%0", "has no number after %"),
        ("1-9%x", "has no number after %"),
        ("1-99999999", "99999999 is too large for an index"),
        (f"0-{SIZE_MAX}", "0-100000 has 100,001 indices: write at most 100,000"),
        (f"0-{SIZE_MAX - 1},{SIZE_MAX}", "has more than 100,000 indices"),
        (",".join(["0-99999"] * 500), "has more than 100,000 indices"),
        ("1," * 3000, "is too long"),
        ("٣", "can't be read"),
    ],
)
def test_unreadable_indices_are_refused_with_a_sentence(written: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as refused:
        read_indices(written)
    assert sentence in str(refused.value)


def test_name_of_an_index_is_split() -> None:
    assert split_name("sweep[17]") == ("sweep", 17)
    for name in ("sweep", "sweep[]", "sweep[01]", "sweep[1-3]", "sweep[*]", "[3]", "a[1][2]", "sweep[-1]"):
        assert split_name(name) is None


def test_large_arrays_take_little_memory() -> None:
    """A pool holds the indices of all arrays that aren't over, and each member may have many."""
    tracemalloc.start()
    try:
        kept = [read_indices(f"0-{SIZE_MAX - 2 - at},{SIZE_MAX + at}") for at in range(20)]
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert sum(map(len, kept)) > 19 * SIZE_MAX
    assert taken < 20 * 500_000
