"""Random endings of generated names."""

import secrets

_CHARACTERS = "23456789bcdfghjkmnpqrstvwxz"
"""Small letters and digits, without vowels, which could make words, and without those that look alike."""


def random_ending(length: int = 5) -> str:
    """Return random small letters and digits, which any name may end with."""
    return "".join(secrets.choice(_CHARACTERS) for _ in range(length))
