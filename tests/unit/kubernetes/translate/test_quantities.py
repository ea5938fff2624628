"""Quantities: exact until they are counted, then rounded up."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.kubernetes.translate.quantities import amounts, exact, in_unit


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("2e3", Fraction(2000)),
        ("1E", Fraction(10**18)),
        ("1E3", Fraction(1000)),
        (".5", Fraction(1, 2)),
        ("+.5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("128974848", Fraction(128974848)),
        ("129M", Fraction(129_000_000)),
        ("123Mi", Fraction(123 * 2**20)),
        ("500u", Fraction(1, 2000)),
        ("1n", Fraction(1, 10**9)),
        (4, Fraction(4)),
        (0.1, Fraction(1, 10)),
        (" 2 ", Fraction(2)),
    ],
)
def test_a_quantity_is_exactly_what_it_says(written, means):
    assert exact(written) == means


@pytest.mark.parametrize("written", ["", "1.5.2", "1 Gi", "Gi", "ten", ".", "0x10", "1KI"])
def test_an_invalid_quantity_is_refused_with_advice(written):
    with pytest.raises(ValueError, match="write a number"):
        exact(written)


def test_a_list_of_resources_names_the_one_that_is_wrong():
    assert amounts({"cpu": "250m", "memory": "1Gi"}) == {"cpu": Fraction(1, 4), "memory": 2**30}
    with pytest.raises(ValueError, match=r"^memory: 'lots' is not a quantity"):
        amounts({"cpu": "1", "memory": "lots"})


@pytest.mark.parametrize(
    ("resource", "exactly", "counted"),
    [
        ("cpu", Fraction(1, 10), 100),
        ("cpu", Fraction(1, 10**9), 1),
        ("memory", Fraction(3, 2), 2),
        ("memory", Fraction(2**30), 2**30),
        ("rdma/hca", Fraction(1), 1),
        ("ephemeral-storage", Fraction(5, 2), 3),
    ],
)
def test_amounts_are_rounded_up_to_their_unit(resource, exactly, counted):
    assert in_unit(resource, exactly) == counted


@pytest.mark.parametrize("exactly", [Fraction(-1), Fraction(10**18)])
def test_what_cannot_be_counted_is_refused(exactly):
    with pytest.raises(ValueError, match=r"^memory: .*write"):
        in_unit("memory", exactly)


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_thousandths_summed_are_what_they_are_each(millis):
    total = sum((exact(f"{milli}m") for milli in millis), Fraction())
    assert in_unit("cpu", total) == sum(millis)
