"""Mistakes in the options of a command: `weir` says them in one sentence and ends with exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager


class WrongOption(ValueError):
    """A mistake in an option; the sentence names the flag."""


@contextmanager
def option_mistakes() -> Iterator[None]:
    """Report errors of the block as mistakes in an option.

    Raises:
        WrongOption: the block raises ValueError.
    """
    try:
        yield
    except ValueError as error:
        raise WrongOption(str(error)) from None
