"""Sentences about wrong words of a command line, each with a correction."""

import re
from collections.abc import Sequence
from typing import Literal, get_args, get_origin

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from weir.cli.commands import OTHER_OPTIONS

_OF_LETTER = re.compile(r" -\S is not a recognized option\.")
"""Second sentence of a cyclopts error, about the first letter of an unknown option; it is removed."""


def usage_error(error: CycloptsError, command: str) -> str:
    """Return a sentence about a mistake on the command line, which refers to the help of `command`."""
    name = _name_of(error)
    if isinstance(error, CoercionError) and error.token is not None:
        return f"{name}: {_unread(error, error.token.value, command)}"
    if isinstance(error, MissingArgumentError) and name:
        if error.keyword is None:
            return f"{name} is missing. See {command} --help."
        written = f"{name}=VALUE" if name.startswith("--") else f"{name} VALUE"
        return f"{name} has no value; write {written}. See {command} --help."
    if isinstance(error, RepeatArgumentError):
        return f"{name} is given twice; leave one out."
    return f"{unknown_word(error) or ' '.join(str(error).split())} See {command} --help."


def _unread(error: CoercionError, value: str, command: str) -> str:
    if error.msg is not None:  # the message contains the allowed values
        return f"{error.msg}."
    if get_origin(error.target_type) is Literal:
        return f"{value!r} is unknown; write {_one_of(get_args(error.target_type))}."
    return f"{value!r} can't be read. See {command} --help."


def unknown_word(error: CycloptsError) -> str:
    """Return a sentence about a word that the command doesn't know; an empty text for other errors."""
    if isinstance(error, UnusedCliTokensError):
        return f"Unknown argument {', '.join(map(repr, error.unused_tokens or ()))}."
    if not isinstance(error, UnknownOptionError):
        return ""
    written = (error.token.keyword or error.token.value).partition("=")[0]
    other = OTHER_OPTIONS.get(written)
    if other is not None and any(other in argument.names for argument in error.argument_collection):
        return f"Unknown option: {written}. Did you mean {other}?"
    return _OF_LETTER.sub("", " ".join(str(error).split()))


def _name_of(error: CycloptsError) -> str:
    """Return the option as typed, or the name of the argument; an empty text if it is unknown."""
    token = getattr(error, "token", None)
    typed = getattr(token, "keyword", None) or getattr(error, "keyword", None)
    return typed or ("" if error.argument is None else error.argument.name)


def _one_of(choices: Sequence[object]) -> str:
    """Return the choices as a list in words."""
    *first, last = map(str, choices)
    return f"{', '.join(first)} or {last}" if first else last
