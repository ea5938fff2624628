"""Random endings of names."""

import re

from weir.api.name_endings import random_ending


def test_a_random_ending_has_its_length_and_only_letters_and_digits_of_names() -> None:
    assert all(re.fullmatch(r"[a-z0-9]{8}", random_ending(8)) for _ in range(50))


def test_two_random_endings_differ() -> None:
    assert len({random_ending() for _ in range(5)}) > 1
