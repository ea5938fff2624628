"""Parameters of a sweep, and how a trial gets their values.

A parameter is written as `float:0..1`, `log:1e-5..1e-1`, `int:1..8`, `logint:16..1024` or
`choice:adam,sgd`. A step after the range makes it a grid: `float:0..1:0.25`, `int:2..10:2`.
"""

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Value = float | int | str | bool
Values = Mapping[str, Value]

PARAMETER_VARIABLES = "WEIR_PARAM"
"""Beginning of the names of the environment variables that hold parameters."""
CHOICES_MAX = 1000
"""Choices of one parameter."""
GRID_MAX = 100_000
"""Points of one grid."""
NUMBER_MAX = 2.0**53
"""Largest whole number and number of steps: up to it, every whole number is exact."""
CHOICE_LENGTH_MAX = 4096
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", re.ASCII)
_RANGE = re.compile(r"([^:]*?)\.\.([^:]*)(?::([^:]*))?")
_NOT_IN_VARIABLES = re.compile(r"[^A-Za-z0-9_]", re.ASCII)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}", re.ASCII)
_NUMBER_LENGTH_MAX = 25
_FORMS = "write float:0..1, log:1e-5..1e-1, int:1..8, logint:16..1024 or choice:adam,sgd"


class Scale(StrEnum):
    """Kinds of parameters."""

    FLOAT = "float"
    LOG = "log"
    INT = "int"
    LOG_INT = "logint"
    CHOICE = "choice"

    @property
    def is_log(self) -> bool:
        """Return True if values are spread evenly over their logarithm."""
        return self in (Scale.LOG, Scale.LOG_INT)

    @property
    def is_whole(self) -> bool:
        """Return True if values are whole numbers."""
        return self in (Scale.INT, Scale.LOG_INT)


@dataclass(frozen=True, slots=True)
class SweepParameter:
    """A parameter: a range with an optional step, or choices."""

    name: str
    scale: Scale
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    choices: tuple[Value, ...] = ()

    @property
    def variable(self) -> str:
        """Return the environment variable that holds its value."""
        return f"{PARAMETER_VARIABLES}_{_NOT_IN_VARIABLES.sub('_', self.name).upper()}"

    def value_at(self, fraction: float) -> Value:
        """Return the value at a fraction of the range, from 0 to below 1."""
        if self.scale is Scale.CHOICE:
            return self.choices[int(fraction * len(self.choices))]
        if self.step is not None:
            return self._stepped(int(fraction * self._steps()))
        low, high = self.low, self.high
        if self.scale.is_whole:  # equal parts of the range for all whole numbers
            low, high = low - (0.5 if self.scale.is_log else 0.0), high + (0.5 if self.scale.is_log else 1.0)
        if self.scale.is_log:
            value = math.exp(math.log(low) + fraction * (math.log(high) - math.log(low)))
        else:
            value = low + fraction * (high - low)
        if self.scale is Scale.LOG_INT:
            return int(min(max(round(value), self.low), self.high))
        if self.scale is Scale.INT:
            return int(min(math.floor(value), self.high))
        return min(max(value, self.low), self.high)

    def points(self) -> Sequence[Value] | None:
        """Return all its values; None if it has infinitely many."""
        if self.scale is Scale.CHOICE:
            return self.choices
        if self.step is not None:
            return [self._stepped(index) for index in range(self._steps())]
        if self.scale is Scale.INT:
            return range(int(self.low), int(self.high) + 1)
        return None

    def size(self) -> int | None:
        """Return the number of its values; None if it has infinitely many."""
        if self.scale is Scale.CHOICE:
            return len(self.choices)
        if self.step is not None:
            return self._steps()
        return int(self.high) - int(self.low) + 1 if self.scale is Scale.INT else None

    @property
    def length_max(self) -> int:
        """Return the length of its longest value as a word."""
        return max(len(as_word(choice)) for choice in self.choices) if self.choices else _NUMBER_LENGTH_MAX

    def _steps(self) -> int:
        assert self.step is not None
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    def _stepped(self, index: int) -> Value:
        assert self.step is not None
        value = self.low + index * self.step
        return int(value) if self.scale.is_whole else float(f"{value:.12g}")


def parse_parameter(name: str, text: str) -> SweepParameter:
    """Return the parameter that a text describes.

    Raises:
        ValueError: the text describes no parameter; the message has the correct form.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name: write letters, digits, _, - and ., no digit first")
    kind, colon, rest = text.partition(":")
    try:
        scale = Scale(kind.strip())
    except ValueError:
        raise ValueError(f"{text!r} is no range: {_FORMS}") from None
    if not colon:
        raise ValueError(f"{text!r} has no values: {_FORMS}")
    if scale is Scale.CHOICE:
        return _choice(name, rest)
    match = _RANGE.fullmatch(rest)
    if match is None:
        raise ValueError(f"{text!r} is no range: {_FORMS}")
    low, high = _number(match[1], scale), _number(match[2], scale)
    step = None if match[3] is None else _number(match[3], scale)
    if low >= high:
        raise ValueError(f"{text!r}: {match[1]} is not below {match[2]}; write the smaller number first")
    if scale.is_log and (low <= 0 or step is not None):
        wrong = "a step" if step is not None else f"{match[1]}, which isn't above 0,"
        raise ValueError(
            f"{text!r}: {wrong} doesn't go with {scale}; write {scale.value.removeprefix('log') or 'float'}:"
        )
    if step is not None and step <= 0:
        raise ValueError(f"{text!r}: the step {match[3]} isn't above 0; write one that is")
    if high - low > (sys.float_info.max if step is None else NUMBER_MAX * step):
        raise ValueError(f"{text!r}: the range is too wide for exact numbers; write a narrower one")
    return SweepParameter(name, scale, low, high, step)


def _choice(name: str, text: str) -> SweepParameter:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ValueError(f"choice:{text} has an empty choice; write choice:adam,sgd")
    if len(set(words)) < len(words):
        raise ValueError(f"choice:{text} names a choice twice; leave one out")
    if len(words) > CHOICES_MAX:
        raise ValueError(f"{len(words)} choices are too many; write at most {CHOICES_MAX}")
    if any("\0" in word for word in words):
        raise ValueError("a choice has a zero byte in it, which no process can get; leave it out")
    if max(map(len, words)) > CHOICE_LENGTH_MAX:
        raise ValueError(f"a choice is longer than {CHOICE_LENGTH_MAX:,} characters; put it into a file")
    return SweepParameter(name, Scale.CHOICE, choices=tuple(_plain_value(word) for word in words))


def _plain_value(word: str) -> Value:
    """Return a number or a boolean where a word is one, as JSON reads it."""
    if len(word) > _NUMBER_LENGTH_MAX:
        return word
    try:
        value = json.loads(word)
    except ValueError:
        return word
    if isinstance(value, bool) or (isinstance(value, int | float) and math.isfinite(value)):
        return value
    return word


def _number(word: str, scale: Scale) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in word:
        raise ValueError(f"{word!r} is no number: {_FORMS}")
    if scale.is_whole and not number.is_integer():
        raise ValueError(f"{word!r} is no whole number, as {scale} needs; write one, or float:")
    if scale.is_whole and abs(number) > NUMBER_MAX:
        raise ValueError(f"{word!r} is too large for {scale}; write at most {NUMBER_MAX:.0f}, or float:")
    return number


def grid_size(parameters: Sequence[SweepParameter]) -> int:
    """Return the number of points of a grid.

    Raises:
        ValueError: a parameter has infinitely many values, or the grid is too large.
    """
    size = 1
    for parameter in parameters:
        count = parameter.size()
        if count is None:
            right = (
                f"write {parameter.scale}:LOW..HIGH:STEP"
                if not parameter.scale.is_log
                else "write choice:1e-4,1e-3"
            )
            raise ValueError(f"{parameter.name} has infinitely many values, and a grid needs few: {right}")
        size *= count
    if size > GRID_MAX:
        raise ValueError(
            f"the grid has {size:,} points; leave values out, at most {GRID_MAX:,} points are tried"
        )
    return size


def variables(parameters: Sequence[SweepParameter], values: Values) -> dict[str, str]:
    """Return the environment variables with the values of a trial."""
    named = {parameter.variable: as_word(values[parameter.name]) for parameter in parameters}
    return {**named, f"{PARAMETER_VARIABLES}S": json.dumps(dict(values))}


def placeholders(command: Sequence[str], parameters: Sequence[SweepParameter]) -> set[str]:
    """Return the parameters that a command names as `{name}`."""
    names = {parameter.name for parameter in parameters}
    return {name for word in command for name in _PLACEHOLDER.findall(word)} & names


def command_length_max(
    command: Sequence[str], parameters: Sequence[SweepParameter], *, arguments: bool
) -> int:
    """Return the length that the command of a trial has at most, without making one."""
    longest = {parameter.name: parameter.length_max for parameter in parameters}
    length = sum(len(word) + 1 for word in command)
    if placeholders(command, parameters):
        named = (name for word in command for name in _PLACEHOLDER.findall(word))
        return length + sum(longest.get(name, 0) for name in named)
    return length + (
        sum(len(name) + value_length + 4 for name, value_length in longest.items()) if arguments else 0
    )


def command_of_trial(
    command: Sequence[str], parameters: Sequence[SweepParameter], values: Values, *, arguments: bool
) -> list[str]:
    """Return the command of a trial: placeholders become values.

    Without any placeholder, `--NAME=VALUE` is appended for each parameter if `arguments` is true.
    """
    if placeholders(command, parameters):
        words = {name: as_word(value) for name, value in values.items()}
        return [_PLACEHOLDER.sub(lambda match: words.get(match[1], match[0]), word) for word in command]
    added = (
        [f"--{parameter.name}={as_word(values[parameter.name])}" for parameter in parameters]
        if arguments
        else []
    )
    return [*command, *added]


def as_word(value: Value) -> str:
    """Return a value as a command line has it."""
    return json.dumps(value) if isinstance(value, bool) else str(value)
