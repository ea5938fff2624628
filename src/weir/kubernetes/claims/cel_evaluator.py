"""_Evaluation of device selectors, bounded in steps."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weir.kubernetes.claims.cel_functions import (
    FUNCTION_NAMES,
    METHOD_NAMES,
    SIZE_MOST,
    TYPE_NAMES,
    call_function,
    call_method,
)
from weir.kubernetes.claims.cel_syntax import CelSyntaxError, Expr, parse
from weir.kubernetes.claims.cel_values import (
    CelError,
    OptionalValue,
    compare,
    equals,
    is_number,
    type_name,
    whole,
)

STEPS_MOST = 50_000
"""Steps of one evaluation: about 50 ms. The API server's own bound is the cost of a million."""
_REMEMBERED = 2048
Scope = Mapping[str, Any]


@dataclass(slots=True)
class StepMeter:
    """Steps that evaluations or searches have taken."""

    steps: int = 0


class Selector:
    """A compiled selector."""

    def __init__(self, text: str) -> None:
        """Compile a selector.

        Raises:
            CelSyntaxError: it is no expression, or it calls a function that isn't supported.
        """
        self.text = text
        try:
            self._tree = parse(text)
            _check_names(self._tree)
        except RecursionError:
            raise CelSyntaxError("the expression is nested too deep") from None

    def matches(self, device: Mapping[str, Any], meter: "StepMeter | None" = None) -> bool:
        """Return True if a device matches; `meter` counts the steps.

        Raises:
            CelError: the expression has no value for this device.
        """
        evaluation = _Evaluation()
        try:
            value = evaluation.value(self._tree, {"device": device})
        except RecursionError:
            raise CelError("the selector is nested too deep") from None
        finally:
            if meter is not None:
                meter.steps += evaluation.spent
        if not isinstance(value, bool):
            raise CelError(f"the selector gives {type_name(value)} instead of true or false")
        return value


@lru_cache(maxsize=_REMEMBERED)
def selector(text: str) -> Selector:
    """Return a compiled selector, once for each text.

    Raises:
        CelSyntaxError: it is no expression, or it calls a function that isn't supported.
    """
    return Selector(text)


def _check_names(tree: Expr) -> None:
    """Refuse functions that aren't supported before anything is evaluated."""
    if tree.kind == "call" and tree.value not in FUNCTION_NAMES:
        raise CelSyntaxError(f"the function {tree.value} is not supported")
    if tree.kind == "method" and tree.value not in METHOD_NAMES:
        raise CelSyntaxError(f"the method {tree.value} is not supported")
    for operand in tree.operands:
        _check_names(operand)


class _Evaluation:
    """_Evaluation of a selector, with its remaining steps."""

    def __init__(self) -> None:
        self._steps = STEPS_MOST

    @property
    def spent(self) -> int:
        """Return the steps that were taken."""
        return STEPS_MOST - self._steps

    def charge(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise CelError(f"the selector takes more than {STEPS_MOST} steps")

    def value(self, tree: Expr, scope: Scope) -> Any:
        self.charge(1)
        return _EVALUATORS[tree.kind](self, tree, scope)

    # Leaves

    def constant(self, tree: Expr, _: Scope) -> Any:
        return tree.value

    def variable(self, tree: Expr, scope: Scope) -> Any:
        if tree.value in scope:
            return scope[tree.value]
        if tree.value in TYPE_NAMES:
            return tree.value
        raise CelError(f"undeclared reference to {tree.value}")

    def list_of(self, tree: Expr, scope: Scope) -> list[Any]:
        return [self.value(each, scope) for each in tree.operands]

    def map_of(self, tree: Expr, scope: Scope) -> dict[Any, Any]:
        keys = [self.value(each, scope) for each in tree.operands[::2]]
        if not all(isinstance(key, str | int | bool) for key in keys):
            raise CelError("a key of a map is a string, an integer or a boolean")
        return {key: self.value(each, scope) for key, each in zip(keys, tree.operands[1::2], strict=True)}

    # Fields

    def select(self, tree: Expr, scope: Scope) -> Any:
        target = self.value(tree.operands[0], scope)
        if isinstance(target, OptionalValue):
            return _optional_entry(target, tree.value)
        return _entry(target, tree.value)

    def index(self, tree: Expr, scope: Scope) -> Any:
        target, key = (self.value(each, scope) for each in tree.operands)
        if isinstance(target, OptionalValue):
            return _optional_entry(target, key)
        return _entry(target, key)

    def optional_index(self, tree: Expr, scope: Scope) -> OptionalValue:
        target, key = (self.value(each, scope) for each in tree.operands)
        if not isinstance(target, OptionalValue):
            target = OptionalValue(target, present=True)
        return _optional_entry(target, key)

    def has(self, tree: Expr, scope: Scope) -> bool:
        target = self.value(tree.operands[0], scope)
        if isinstance(target, OptionalValue):
            target = target.value if target.present else {}
        if not isinstance(target, Mapping):
            raise CelError(f"{type_name(target)} has no fields")
        return tree.value in target

    # Operators

    def both(self, tree: Expr, scope: Scope) -> bool:
        return self._logical(tree, scope, decides=False)

    def either(self, tree: Expr, scope: Scope) -> bool:
        return self._logical(tree, scope, decides=True)

    def _logical(self, tree: Expr, scope: Scope, *, decides: bool) -> bool:
        """Return the value of && or ||: an error counts only if the other side doesn't decide."""
        failed: CelError | None = None
        for operand in tree.operands:
            try:
                value = self.value(operand, scope)
                if not isinstance(value, bool):
                    raise CelError(f"no such overload for {type_name(value)}")  # noqa: TRY301
            except CelError as error:
                if self._steps < 0:
                    raise
                failed = error
                continue
            if value is decides:
                return decides
        if failed is not None:
            raise failed
        return not decides

    def choose(self, tree: Expr, scope: Scope) -> Any:
        condition, then, otherwise = tree.operands
        return self.value(then if self._truth(condition, scope) else otherwise, scope)

    def invert(self, tree: Expr, scope: Scope) -> bool:
        return not self._truth(tree.operands[0], scope)

    def negate(self, tree: Expr, scope: Scope) -> Any:
        value = self.value(tree.operands[0], scope)
        if not is_number(value):
            raise CelError(f"no such overload for {type_name(value)}")
        return -value if isinstance(value, float) else whole(-value, value)

    def _truth(self, tree: Expr, scope: Scope) -> bool:
        value = self.value(tree, scope)
        if not isinstance(value, bool):
            raise CelError(f"no such overload for {type_name(value)}")
        return value

    def binary(self, tree: Expr, scope: Scope) -> Any:
        first, second = (self.value(each, scope) for each in tree.operands)
        sign = tree.value
        if isinstance(first, str | list | Mapping):
            self.charge(len(first) // 10)
        if sign in ("==", "!="):
            return equals(first, second, self.charge) == (sign == "==")
        if sign == "in":
            return self._is_in(first, second)
        if sign in _ORDERS:
            return _ORDERS[sign](compare(first, second))
        return (
            self._sum(first, second)
            if sign == "+" and not is_number(first)
            else _computed(sign, first, second)
        )

    def _is_in(self, item: Any, items: Any) -> bool:
        if isinstance(items, list):
            return any(equals(item, each, self.charge) for each in items)
        if isinstance(items, Mapping):
            return isinstance(item, str | int) and item in items
        raise CelError(f"no such overload: in {type_name(items)}")

    def _sum(self, first: Any, second: Any) -> Any:
        alike = (isinstance(first, str) and isinstance(second, str)) or (
            isinstance(first, list) and isinstance(second, list)
        )
        if not alike:
            raise CelError(f"no such overload: {type_name(first)} + {type_name(second)}")
        if len(first) + len(second) > SIZE_MOST:
            raise CelError("a value is too large")
        self.charge((len(first) + len(second)) // 10)
        return first + second

    # Calls

    def call(self, tree: Expr, scope: Scope) -> Any:
        arguments = [self.value(each, scope) for each in tree.operands]
        return call_function(tree.value, arguments, self.charge)

    def method(self, tree: Expr, scope: Scope) -> Any:
        target, *arguments = (self.value(each, scope) for each in tree.operands)
        return call_method(tree.value, target, arguments, self.charge)

    def bind(self, tree: Expr, scope: Scope) -> Any:
        return self.value(tree.operands[1], {**scope, tree.value: self.value(tree.operands[0], scope)})

    def optional_map(self, tree: Expr, scope: Scope) -> OptionalValue:
        name, variable = tree.value
        target = self.value(tree.operands[0], scope)
        if not isinstance(target, OptionalValue):
            raise CelError(f"no such overload: {type_name(target)}.{name}")
        if not target.present:
            return target
        value = self.value(tree.operands[1], {**scope, variable: target.value})
        if name == "optMap":
            return OptionalValue(value, present=True)
        if not isinstance(value, OptionalValue):
            raise CelError("optFlatMap takes an optional value")
        return value

    def macro(self, tree: Expr, scope: Scope) -> Any:
        name, variable = tree.value
        target = self.value(tree.operands[0], scope)
        if not isinstance(target, list | Mapping):
            raise CelError(f"{name} takes a list or a map, not {type_name(target)}")
        items = list(target)
        self.charge(len(items))
        scopes = ({**scope, variable: item} for item in items)
        body = tree.operands[-1]
        if name in ("all", "exists"):
            return self._any_or_all(scopes, body, decides=name == "exists")
        if name == "exists_one":
            return sum(self._truth(body, inner) for inner in scopes) == 1
        if name == "filter":
            return [inner[variable] for inner in scopes if self._truth(body, inner)]
        condition = tree.operands[1] if len(tree.operands) == 3 else None
        return [
            self.value(body, inner) for inner in scopes if condition is None or self._truth(condition, inner)
        ]

    def _any_or_all(self, scopes: Any, body: Expr, *, decides: bool) -> bool:
        failed: CelError | None = None
        for inner in scopes:
            try:
                if self._truth(body, inner) is decides:
                    return decides
            except CelError as error:
                if self._steps < 0:
                    raise
                failed = error
        if failed is not None:
            raise failed
        return not decides


def _entry(target: Any, key: Any) -> Any:
    if isinstance(target, list):
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(target):
            raise CelError("index out of range")
        return target[key]
    if not isinstance(target, Mapping):
        raise CelError(f"{type_name(target)} has no fields")
    try:
        return target[key]
    except (KeyError, TypeError):
        raise CelError(f"no such key: {key}") from None


def _optional_entry(target: OptionalValue, key: Any) -> OptionalValue:
    if not target.present:
        return target
    try:
        if isinstance(target.value, Mapping) and key not in target.value:
            return OptionalValue()
        return OptionalValue(_entry(target.value, key), present=True)
    except TypeError:
        raise CelError(f"{type_name(key)} is no key of a map") from None
    except CelError:
        if isinstance(target.value, list):
            return OptionalValue()
        raise


_ORDERS: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def _computed(sign: str, first: Any, second: Any) -> Any:
    if not is_number(first) or type_name(first) != type_name(second):
        raise CelError(f"no such overload: {type_name(first)} {sign} {type_name(second)}")
    if isinstance(first, float):
        return _computed_double(sign, first, second)
    if sign in "/%" and second == 0:
        raise CelError("division by zero")
    if sign == "/":
        quotient = abs(first) // abs(second)
        return whole(quotient if (first < 0) == (second < 0) else -quotient, first)
    if sign == "%":
        rest = abs(first) % abs(second)
        return whole(-rest if first < 0 else rest, first)
    return whole({"+": first + second, "-": first - second, "*": first * second}[sign], first)


def _computed_double(sign: str, first: float, second: float) -> float:
    if sign == "/":
        if second == 0:
            return math.copysign(math.inf, first) if first else math.nan
        return first / second
    if sign == "%":
        raise CelError("no such overload: double % double")
    return {"+": first + second, "-": first - second, "*": first * second}[sign]


_EVALUATORS: dict[str, Callable[[_Evaluation, Expr, Scope], Any]] = {
    "constant": _Evaluation.constant,
    "variable": _Evaluation.variable,
    "list": _Evaluation.list_of,
    "map": _Evaluation.map_of,
    "select": _Evaluation.select,
    "index": _Evaluation.index,
    "optional_index": _Evaluation.optional_index,
    "has": _Evaluation.has,
    "and": _Evaluation.both,
    "or": _Evaluation.either,
    "if": _Evaluation.choose,
    "not": _Evaluation.invert,
    "negate": _Evaluation.negate,
    "binary": _Evaluation.binary,
    "call": _Evaluation.call,
    "method": _Evaluation.method,
    "bind": _Evaluation.bind,
    "optional_map": _Evaluation.optional_map,
    "macro": _Evaluation.macro,
}
