"""Errors that end a command: `weir` says each in one sentence, and ends with its exit code."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weir.client.errors import Refused


class CommandError(Exception):
    """A command can't continue. The text is a sentence without its full stop."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code


class WrongOption(CommandError, ValueError):
    """A mistake in an option; the sentence names the flag."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, code=2)


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


@contextmanager
def failures(*errors: type[Exception]) -> Iterator[None]:
    """Report these errors of the block as the failure of the command.

    Raises:
        CommandError: the block raises one of them.
    """
    try:
        yield
    except errors as error:
        raise CommandError(str(error).rstrip(".")) from None


@contextmanager
def refusals_in(words: Callable[[str], str]) -> Iterator[None]:
    """Translate refusals inside the block, for example fields to options.

    Raises:
        Refused: the pool refuses a request.
    """
    try:
        yield
    except Refused as refused:
        refused.args = (words(str(refused)),)
        raise
