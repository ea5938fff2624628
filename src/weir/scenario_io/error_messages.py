"""Errors of pydantic as messages for people: the key, the mistake and the correction."""

import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from weir.scenario_io.source_map import Mistakes, Path, Step

Form = TypeVar("Form", bound=BaseModel)
_KEYS_TOLD_MAX = 12
_KEY_MAX = 80
_COMPARED_LENGTH_MAX = 128
"""Length limit of a word that is compared with known names; a longer one is no typing mistake."""
_COMPARED_NAMES_MAX = 2000
"""Limit of known names that a word is compared with."""


def add_errors(error: ValidationError, model: type[BaseModel], mistakes: Mistakes) -> None:
    """Report the errors of a validation, up to the limit of `mistakes`."""
    details = error.errors(include_url=False)
    for detail in details[: mistakes.told_max]:
        where = tuple(detail["loc"])
        if where and where[-1] == "[key]":
            where = where[:-1]
        mistakes.add(where, _words(detail, model, where, mistakes))
    mistakes.untold += max(0, len(details) - mistakes.told_max)


def validated(model: type[Form], body: Any, mistakes: Mistakes) -> Form:
    """Return the body of a file as a model.

    Raises:
        InvalidFile: the file has mistakes, with all of them.
    """
    parsed = None
    try:
        parsed = model.model_validate(body)
    except ValidationError as error:
        add_errors(error, model, mistakes)
    mistakes.refuse_if_any()
    assert parsed is not None, "a refused body has mistakes"
    return parsed


def parameter_error(detail: Mapping[str, Any], name: str) -> str:
    """Return the error of a parameter of a request, which is a text even where it is a number."""
    kind, written, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if kind in _BOUNDS and isinstance(written, str):
        try:
            written = int(written)
        except ValueError:
            written = float(written)
    if kind in _SAID:
        return f"{name}: {_sentence(kind, written, context)}"
    return f"{name}: {shown(written)} can't be used; {str(detail['msg']).lower()}"


def unknown_parameter(name: str, allowed: Sequence[str]) -> str:
    """Return the error of a query parameter that a path doesn't take."""
    return f"unknown parameter {shown(name)}; {nearest(name, allowed) if allowed else 'the path takes none'}"


def suggest(word: str, allowed: Iterable[str], mistakes: Mistakes) -> str:
    """Return the nearest known name for the first mistakes of a file, else the list of known names.

    A comparison costs far more than the rest of a mistake, and the input chooses how many there are.
    """
    if not mistakes.suggestions_left:
        return _listed(list(allowed))
    mistakes.suggestions_left -= 1
    return nearest(word, allowed)


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return the correction of an unknown word: the nearest known one, or a list of them."""
    names = list(allowed)
    close: list[str] = []
    if len(word) <= _COMPARED_LENGTH_MAX:
        close = get_close_matches(word, names[:_COMPARED_NAMES_MAX], n=1)
    return f"did you mean {close[0]}?" if close else _listed(names)


def _listed(names: list[str]) -> str:
    if not names:
        return "none exists"
    listed = ", ".join(names[:_KEYS_TOLD_MAX])
    return f"write one of {listed}" + (", ..." if len(names) > _KEYS_TOLD_MAX else "")


def shown(written: Any) -> str:
    """Return a value as the file has it, shortened."""
    if written is None:
        return "null"
    if isinstance(written, bool):
        return str(written).lower()
    if isinstance(written, dict):
        return "a mapping"
    if isinstance(written, list):
        return "a list"
    return reprlib.repr(written)


def key_of(where: Sequence[Step]) -> str:
    """Return the name of a path: the keys after the last list, or the list and a position."""
    words: list[str] = []
    for step in where:
        if isinstance(step, int):
            words = [f"{words[-1]}[{step}]"] if words else []
        else:
            words = [step] if words and words[-1].endswith("]") else [*words, step]
    return ".".join(words)


def _words(detail: ErrorDetails, model: type[BaseModel], where: Path, mistakes: Mistakes) -> str:
    kind, written = detail["type"], detail.get("input")
    path = _brief(key_of(where))
    key = path or "the document"
    if kind == "extra_forbidden":
        word = str(where[-1])
        return f"unknown key {_brief(word)}; {suggest(word, _keys(model, where[:-1]), mistakes)}"
    if kind == "missing":
        inside = key_of(where[:-1])
        return f"{where[-1]} is missing{' in ' + inside if inside else ''}; add {where[-1]}"
    if kind == "value_error":
        message = str(detail["ctx"]["error"]).replace(": write ", "; write ", 1)
        return f"{path}: {message}" if path else message  # one about several keys names them
    if kind in _SAID:
        return f"{key}: {_sentence(kind, written, detail.get('ctx', {}))}"
    return f"{key}: {shown(written)} can't be used; {detail['msg'].lower()}"


def _sentence(kind: str, written: Any, context: Mapping[str, Any]) -> str:
    """Return the message about a mistake in a value, with the correction."""
    template = _SAID[kind]
    return (
        template.format(shown=shown(written), **context)
        if isinstance(template, str)
        else template(written, context)
    )


def _brief(key: str) -> str:
    """Return a key with its middle left out if it is long: a message stays one sentence."""
    return key if len(key) <= _KEY_MAX else f"{key[: _KEY_MAX // 2]}...{key[-_KEY_MAX // 4 :]}"


def _keys(model: type[BaseModel], where: Path) -> list[str]:
    """Return the known keys at a path of a model."""
    annotation: Any = model
    for step in where:
        annotation = _bare(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields.get(str(step))
            annotation = field.annotation if field is not None else None
        else:
            arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
            annotation = arguments[-1] if arguments else None
    annotation = _bare(annotation)
    return (
        list(annotation.model_fields)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel)
        else []
    )


def _bare(annotation: Any) -> Any:
    """Return an annotation without its metadata and without None."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if isinstance(annotation, types.UnionType) or str(get_origin(annotation)) == "typing.Union":
        for argument in get_args(annotation):
            if argument is not type(None):
                return _bare(argument)
    return annotation


def _not_text(written: Any, _: Any) -> str:
    if isinstance(written, bool | int | float):
        return f'{shown(written)} is no text; put it in quotes: "{shown(written)}"'
    return f"{shown(written)} is no text; write a word or a text in quotes"


def _choice(written: Any, ctx: Any) -> str:
    choices = str(ctx["expected"]).replace("'", "")
    return f"{shown(written)} isn't known; write {choices}"


def _too_short(written: Any, ctx: Any) -> str:
    if not written:
        return "is empty; write a text, or leave it out"
    return f"{shown(written)} is too short; write at least {ctx['min_length']} characters"


def _too_many(written: Any, ctx: Any) -> str:
    return f"is a {_collection(written)} of {len(written):,} entries; write at most {ctx['max_length']:,}"


def _too_few(written: Any, _: Any) -> str:
    return f"is an empty {_collection(written)}; write at least one entry, or leave the key out"


def _collection(written: Any) -> str:
    return "mapping" if isinstance(written, dict) else "list"


def _least(written: Any, ctx: Any) -> str:
    low = "negative" if isinstance(written, int | float) and written < 0 else "too small"
    right = f"{ctx['ge']:g} or more" if "ge" in ctx else f"more than {ctx['gt']:g}"
    return f"{shown(written)} is {low}; write {right}"


def _most(written: Any, ctx: Any) -> str:
    right = f"at most {ctx['le']:.15g}" if "le" in ctx else f"less than {ctx['lt']:.15g}"
    return f"{shown(written)} is too large; write {right}"


_BOUNDS = ("greater_than_equal", "greater_than", "less_than_equal", "less_than")
_WHOLE = "{shown} is not a whole number; write one such as 4"
_NUMBER = "{shown} is not a number; write one such as 0.5"
_BOOLEAN = "{shown} is neither true nor false; write true or false"
_LIST = "{shown} is not a list; write [...], or one entry a line after a dash"
_MAPPING = "{shown} is not a mapping; write keys and values such as name: a"
_SAID: dict[str, str | Callable[[Any, Any], str]] = {
    "string_type": _not_text,
    "string_too_short": _too_short,
    "string_too_long": "{shown} is too long; write at most {max_length} characters",
    "string_pattern_mismatch": "{shown} has another form; write a text that matches {pattern}",
    "literal_error": _choice,
    "enum": _choice,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "{shown} is not a finite number; write one such as 0.5",
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "too_long": _too_many,
    "too_short": _too_few,
    "greater_than_equal": _least,
    "greater_than": _least,
    "less_than_equal": _most,
    "less_than": _most,
}
