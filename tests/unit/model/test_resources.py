"""Words become numbers: quantities, amounts, durations."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.model.resources import UNLIMITED, amount, quantity, seconds, span, written


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("4", 4),
        (4, 4),
        (0.1, Fraction(1, 10)),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("1e3", 1000),
        ("12E", 12 * 10**18),
        ("40Gi", 40 << 30),
        ("1.5Ki", 1536),
        (" 2k ", 2000),
        ("-3", -3),
        ("100u", Fraction(1, 10**4)),
    ],
)
def test_quantities_are_exact(text: str | float, exact: Fraction) -> None:
    assert quantity(text) == exact


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "4 Gi",
        "Gi",
        "1e",
        "0x10",
        "1_000",
        "٣",
        "4GiB",
        True,
        None,
        [],
        float("nan"),
        float("inf"),
        "9" * 99,
    ],
)
def test_what_is_no_quantity_says_what_to_write(text: object) -> None:
    with pytest.raises(ValueError, match=": write "):
        quantity(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resource", "text", "counted"),
    [
        ("gpu", 0.5, 500),
        ("gpu.H100", "2", 2000),
        ("cpu", "1m", 1),
        ("cpu", "0.001", 1),
        ("memory", "1Gi", 1 << 30),
        ("memory", "2000m", 2),
        ("memory", "0.1Gi", 107_374_183),  # a binary unit has parts that are no whole bytes
        ("ephemeral-storage", "1.3Mi", 1_363_149),
        ("pods", 110, 110),
        ("gpu", "unlimited", UNLIMITED),
    ],
)
def test_amounts_are_counted_in_their_unit(resource: str, text: str | float, counted: int) -> None:
    assert amount(resource, text) == counted


@pytest.mark.parametrize(
    ("resource", "text", "sentence"),
    [
        ("gpu", "0.0001", "'0.0001' is finer than 0.001, the smallest share of a device: write 0.001"),
        ("gpu.H100", 1.23456, "1.23456 is finer than 0.001, the smallest share of a device: write 1.235"),
        ("cpu", "100u", "'100u' is finer than 0.001, the smallest share of a core: write 0.001"),
        ("cpu", 0.00100001, "0.00100001 is finer than 0.001"),
        ("memory", "1500m", "'1500m' is not a whole number of bytes: write 2, or a unit, such as 1.5Gi"),
        ("memory", 0.5, "0.5 is not a whole number of bytes: write 1, or a unit"),
        ("rdma/hca", "1.4", "'1.4' is not a whole number: write 1"),
        ("gpu", "1e-10", "'1e-10' is finer than 0.001, the smallest share of a device: write 0.001"),
        ("cpu", 1e-10, "1e-10 is finer than 0.001, the smallest share of a core: write 0.001"),
        ("memory", "1n", "'1n' is not a whole number of bytes: write 1, or a unit"),
        ("pods", "1e-10", "'1e-10' is not a whole number: write 1"),
        ("gpu", "-1e-10", "'-1e-10' is negative: write 0 or more"),
        ("memory", -1e-10, "-1e-10 is negative: write 0 or more"),
    ],
)
def test_amounts_finer_than_their_unit_are_refused(resource: str, text: str | float, sentence: str) -> None:
    with pytest.raises(ValueError, match=": write ") as refused:
        amount(resource, text)
    assert str(refused.value).startswith(sentence)


@given(st.lists(st.integers(0, 1000), max_size=50))
def test_amounts_that_a_program_adds_up_are_those_that_it_means(shares_milli: list[int]) -> None:
    assert amount("gpu", sum(milli / 1000 for milli in shares_milli)) == sum(shares_milli)
    assert amount("gpu", repr(sum(milli / 1000 for milli in shares_milli))) == sum(shares_milli)


@pytest.mark.parametrize("gigabytes", [1.1, 1.15, 3 * 0.1, 2.2, 38.7])
def test_bytes_that_a_program_computes_are_those_that_it_means(gigabytes: float) -> None:
    assert amount("memory", gigabytes * 1e11) == round(gigabytes * 1e11)
    with pytest.raises(ValueError, match="is not a whole number of bytes"):
        amount("memory", f"{round(gigabytes * 1e11)}.5")


@pytest.mark.parametrize("text", [-1, "-500m", "1e300", 10**40, "no limit"])
def test_what_cannot_be_counted_says_what_to_write(text: str | float) -> None:
    with pytest.raises(ValueError, match=": write "):
        amount("gpu", text)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("90s", 90),
        ("10m", 600),
        ("2h30m", 9000),
        ("1d", 86400),
        ("-5m", -300),
        ("0m", 0),
        ("1.5s", 1.5),
        ("45", 45),
        (45, 45),
        (-0.5, -0.5),
    ],
)
def test_durations(text: str | float, exact: float) -> None:
    assert seconds(text) == exact


@pytest.mark.parametrize(
    "text", ["", "-", "m", "5x", "1.5h", "5m3h", True, None, float("inf"), "9" * 30 + "d", 1e300, 10**400]
)
def test_what_is_no_duration_says_what_to_write(text: object) -> None:
    with pytest.raises(ValueError, match=": write "):
        seconds(text)  # type: ignore[arg-type]


@given(st.integers(0, 10**12))
def test_amounts_are_shown_so_that_they_read_back(milli: int) -> None:
    assert amount("gpu", written("gpu", milli)) == milli


@pytest.mark.parametrize(
    ("at_s", "shown"),
    [(0, "0s"), (59.6, "1m"), (-300, "-5m"), (7500, "2h5m"), (90000, "1d1h"), (-0.2, "0s")],
)
def test_times_are_shown_as_people_read_them(at_s: float, shown: str) -> None:
    assert span(at_s) == shown
