"""The little language of the table of kinds: numbers and conditions read off an object.

Numbers: `spec.replicas|1` is what stands at a path, or 1; `+`, `-`, `*` and brackets; `min(a, b)`,
`max(a, b)` and `sum(a, b)` leave out what isn't there. A path with a `*` step stands for all elements
of a list or a mapping, and goes inside one of the three: `sum(spec.groups.*.replicas|1)`.

Conditions: `condition Complete` holds if the status has it as True; `PATH = A or B` if one of these words
stands there; `PATH` alone if something stands there that isn't false, 0 or empty.

There is no way to loop, to call anything else, or to reach outside of the object.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Steps = tuple[str, ...]

_TOKEN = re.compile(r"\s*([0-9]+|[A-Za-z_]\w*(?:\.(?:\*|[A-Za-z_]\w*))*|[-+*|(),])", re.ASCII)
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.(?:\*|[A-Za-z_]\w*))*", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_LENGTH_MAX = 500
_DEPTH_MAX = 16
_FOLDS: dict[str, Callable[[list[int]], int]] = {"sum": sum, "min": min, "max": max}
CONDITIONS: Steps = ("status", "conditions")
TRANSITION = "lastTransitionTime"


def values_at(value: Any, steps: Steps) -> Iterator[Any]:
    """Yield the values at a path of an object: none, one, or several behind a `*`."""
    if not steps:
        yield value
    elif steps[0] == "*":
        several = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for child in several:
            yield from values_at(child, steps[1:])
    elif isinstance(value, dict) and steps[0] in value:
        yield from values_at(value[steps[0]], steps[1:])


def one_at(value: Any, steps: Steps) -> Any:
    """Return the value at a path without a `*`; None if there is none."""
    for step in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


@dataclass(frozen=True, slots=True)
class _Number:
    value: int

    def read(self, _: Any) -> list[int | None]:
        return [self.value]


@dataclass(frozen=True, slots=True)
class _Read:
    """Value at a path, or the values at a path with a star."""

    steps: Steps

    def read(self, body: Any) -> list[int | None]:
        if "*" not in self.steps:
            return [_counted(one_at(body, self.steps))]
        star = len(self.steps) - self.steps[::-1].index("*")
        return [_counted(one_at(part, self.steps[star:])) for part in values_at(body, self.steps[:star])]


@dataclass(frozen=True, slots=True)
class _Or:
    """Value of an expression, with a default."""

    first: "_Node"
    second: "_Node"

    def read(self, body: Any) -> list[int | None]:
        other = self.second.read(body)[0]
        return [other if value is None else value for value in self.first.read(body)]


@dataclass(frozen=True, slots=True)
class _Two:
    """Sum, difference or product of two values; without a value if one of them is missing."""

    sign: Literal["+", "-", "*"]
    first: "_Node"
    second: "_Node"

    def read(self, body: Any) -> list[int | None]:
        first, second = self.first.read(body)[0], self.second.read(body)[0]
        if first is None or second is None:
            return [None]
        if self.sign == "*":
            return [first * second]
        return [first + second if self.sign == "+" else first - second]


@dataclass(frozen=True, slots=True)
class _Fold:
    """The sum, the minimum or the maximum of the existing values."""

    name: str
    parts: tuple["_Node", ...]

    def read(self, body: Any) -> list[int | None]:
        values = [value for part in self.parts for value in part.read(body) if value is not None]
        return [_FOLDS[self.name](values) if values or self.name == "sum" else None]


_Node = _Number | _Read | _Or | _Two | _Fold


def _counted(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class KindAmount:
    """A number as an expression over an object."""

    text: str
    _node: _Node

    def read(self, body: Mapping[str, Any]) -> int | None:
        """Return the number, at least 0; None if the object doesn't have it."""
        value = self._node.read(body)[0]
        return None if value is None else max(0, value)

    def paths(self) -> Iterator[Steps]:
        """Yield the paths that the expression reads."""
        return _paths(self._node)


def _paths(node: _Node) -> Iterator[Steps]:
    if isinstance(node, _Read):
        yield node.steps
    elif isinstance(node, _Or | _Two):
        yield from _paths(node.first)
        yield from _paths(node.second)
    elif isinstance(node, _Fold):
        for part in node.parts:
            yield from _paths(part)


def parse_amount(text: str) -> KindAmount:
    """Return the expression for a number.

    Raises:
        ValueError: the text is no expression; the message has an example.
    """
    reading = _Parser(text)
    node = reading.sum(0)
    reading.end()
    if _several(node):
        raise ValueError(
            f"{text!r} stands for several numbers: write sum(...), min(...) or max(...) around it"
        )
    return KindAmount(text, node)


def _several(node: _Node) -> bool:
    return (isinstance(node, _Read) and "*" in node.steps) or (isinstance(node, _Or) and _several(node.first))


class _Parser:
    """Parser of an expression, token by token."""

    def __init__(self, text: str) -> None:
        if len(text) > _LENGTH_MAX:
            raise ValueError(f"is longer than {_LENGTH_MAX} characters: write a shorter expression")
        self.text = text
        self.words: list[str] = []
        place, end = 0, len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                raise self.wrong(f"has {text[place:].strip()[0]!r}, which means nothing here")
            self.words.append(match[1])
            place = match.end()
        self.place = 0

    def wrong(self, problem: str) -> ValueError:
        return ValueError(f"{self.text!r} {problem}: write one such as sum(spec.groups.*.replicas|1)")

    def next(self, *wanted: str) -> str:
        """Return the next token if it is one of these, else an empty string."""
        if self.place < len(self.words) and self.words[self.place] in wanted:
            self.place += 1
            return self.words[self.place - 1]
        return ""

    def end(self) -> None:
        if self.place < len(self.words):
            raise self.wrong(f"has {self.words[self.place]!r} where it should end")

    def sum(self, depth: int) -> _Node:
        if depth > _DEPTH_MAX:
            raise self.wrong(f"has brackets more than {_DEPTH_MAX} deep")
        node = self.product(depth)
        while sign := self.next("+", "-"):
            node = self.two("+" if sign == "+" else "-", node, self.product(depth))
        return node

    def product(self, depth: int) -> _Node:
        node = self.value(depth)
        while self.next("*"):
            node = self.two("*", node, self.value(depth))
        return node

    def two(self, sign: Literal["+", "-", "*"], first: _Node, second: _Node) -> _Node:
        if _several(first) or _several(second):
            raise self.wrong("calculates with several numbers at once")
        return _Two(sign, first, second)

    def value(self, depth: int) -> _Node:
        node = self.single(depth)
        while self.next("|"):
            other = self.single(depth)
            if _several(other):
                raise self.wrong("has several numbers behind |")
            node = _Or(node, other)
        return node

    def single(self, depth: int) -> _Node:
        if self.next("("):
            node = self.sum(depth + 1)
            self.close()
            return node
        if self.place == len(self.words):
            raise self.wrong("breaks off")
        word = self.words[self.place]
        self.place += 1
        if word.isdigit():
            return _Number(int(word))
        if word in _FOLDS and self.next("("):
            parts = [self.sum(depth + 1)]
            while self.next(","):
                parts.append(self.sum(depth + 1))
            self.close()
            return _Fold(word, tuple(parts))
        if _PATH.fullmatch(word):
            return _Read(tuple(word.split(".")))
        raise self.wrong(f"has {word!r} where a number or a path should be")

    def close(self) -> None:
        if not self.next(")"):
            raise self.wrong("has a bracket that isn't closed")


@dataclass(frozen=True, slots=True)
class KindCondition:
    """Something that holds of an object or doesn't."""

    text: str
    steps: Steps
    words: tuple[str, ...] = ()  # expected values; empty: any value
    type: str = ""  # type of a status condition

    def holds(self, body: Mapping[str, Any]) -> bool:
        """Return True if the condition holds for an object."""
        if self.type:
            return any(self._is_true(condition) for condition in values_at(body, (*CONDITIONS, "*")))
        if self.words:
            return any(
                isinstance(value, str | int) and str(value) in self.words
                for value in values_at(body, self.steps)
            )
        return (
            any(values_at(body, self.steps))
            if "*" in self.steps
            else bool(next(values_at(body, self.steps), None))
        )

    def since(self, body: Mapping[str, Any]) -> str:
        """Return since when a status condition of an object holds; empty if the object has no time of it."""
        if not self.type:
            return ""
        held = (condition for condition in values_at(body, (*CONDITIONS, "*")) if self._is_true(condition))
        return next((str(condition.get(TRANSITION, "")) for condition in held), "")

    def _is_true(self, condition: Any) -> bool:
        """Return True if the status of an object has the named condition as true."""
        return (
            isinstance(condition, Mapping)
            and condition.get("type") == self.type
            and condition.get("status") == "True"
        )


def parse_condition(text: str) -> KindCondition:
    """Parse a condition of a workload kind, such as `condition Complete` or `spec.suspend`.

    Raises:
        ValueError: the text is no condition; the message has an example.
    """
    example = "write one such as condition Complete, spec.mode = Indexed or spec.suspend"
    if len(text) > _LENGTH_MAX:
        raise ValueError(f"is longer than {_LENGTH_MAX} characters: {example}")
    words = text.split()
    if len(words) == 2 and words[0] == "condition" and _WORD.fullmatch(words[1]):
        return KindCondition(text, CONDITIONS, type=words[1])
    path, equals, right = (part.strip() for part in text.partition("="))
    wanted = tuple(right.split(" or ")) if equals else ()
    if not _PATH.fullmatch(path) or not all(_WORD.fullmatch(word.strip()) for word in wanted):
        raise ValueError(f"{text!r} is no condition: {example}")
    return KindCondition(text, tuple(path.split(".")), tuple(word.strip() for word in wanted))


def parse_path(text: str) -> Steps:
    """Return a path.

    Raises:
        ValueError: the text is no path; the message has an example.
    """
    if len(text) > _LENGTH_MAX or not _PATH.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no path: write one such as spec.replicatedJobs.*")
    return tuple(text.split("."))


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """Selection of the fields of an object: everything below a key, or some of its keys."""

    whole: bool
    below: Mapping[str, "FieldSelection"]
    every: "FieldSelection | None"  # below any other key, or any element

    def cut(self, tree: Any) -> Any:
        """Return a copy of an object with only the selected fields."""
        if self.whole:
            return tree
        every = self.every
        if isinstance(tree, list):
            return [] if every is None else [every.cut(child) for child in tree]
        if not isinstance(tree, dict):
            return None
        if every is None:
            return {key: below.cut(tree[key]) for key, below in self.below.items() if key in tree}
        return {key: self.below.get(key, every).cut(value) for key, value in tree.items()}


def kept_at(paths: Iterable[Steps]) -> FieldSelection:
    """Return the selection that keeps the values at these paths."""
    below: dict[str, list[Steps]] = {}
    whole = False
    for steps in paths:
        whole = whole or not steps
        if steps:
            below.setdefault(steps[0], []).append(steps[1:])
    every = below.pop("*", [])
    return FieldSelection(
        whole,
        {key: kept_at([*those, *every]) for key, those in below.items()},
        kept_at(every) if every else None,
    )
