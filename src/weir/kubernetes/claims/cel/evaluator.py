"""Evaluation of device selectors, bounded in steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weir.kubernetes.claims.cel.functions import (
    CHOICES,
    FUNCTION_NAMES,
    METHOD_NAMES,
    call_function,
    call_method,
)
from weir.kubernetes.claims.cel.literals import CelSyntaxError
from weir.kubernetes.claims.cel.macros import Scope, any_or_all, expanded
from weir.kubernetes.claims.cel.operators import computed, entry, has_entry, negated, optional_entry
from weir.kubernetes.claims.cel.syntax import Expr, parse
from weir.kubernetes.claims.cel.values import (
    TYPES,
    CelError,
    OptionalValue,
    type_name,
)

STEPS_MAX = 50_000
"""Steps of one evaluation: about 50 ms. The API server's own bound is the cost of a million."""
_REMEMBERED = 2048


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
    if tree.kind == "method" and tree.value not in METHOD_NAMES and not _qualified(tree):
        raise CelSyntaxError(f"the method {tree.value} is not supported")
    for operand in tree.operands:
        _check_names(operand)


def _qualified(tree: Expr) -> str:
    """Return the name of a function with a dot that looks like a method; nothing for a method."""
    target = tree.operands[0]
    name = f"{target.value}.{tree.value}" if target.kind == "variable" else ""
    return name if name in FUNCTION_NAMES else ""


class _Evaluation:
    """Evaluation of a selector, with its remaining steps."""

    def __init__(self) -> None:
        self._steps = STEPS_MAX

    @property
    def spent(self) -> int:
        """Return the steps that were taken."""
        return STEPS_MAX - self._steps

    @property
    def is_spent(self) -> bool:
        """Return True if no steps are left."""
        return self._steps < 0

    def charge(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise CelError(f"the selector takes more than {STEPS_MAX} steps")

    def value(self, tree: Expr, scope: Scope) -> Any:
        self.charge(1)
        return _EVALUATORS[tree.kind](self, tree, scope)

    # Leaves

    def constant(self, tree: Expr, _: Scope) -> Any:
        return tree.value

    def variable(self, tree: Expr, scope: Scope) -> Any:
        if tree.value in scope:
            return scope[tree.value]
        if tree.value in TYPES:
            return TYPES[tree.value]
        raise CelError(f"undeclared reference to {tree.value}")

    def named_type(self, tree: Expr, scope: Scope) -> Any:
        """Return the type with a dotted name, or a field if the name starts with a variable."""
        is_field = tree.value.partition(".")[0] in scope
        return self.value(tree.operands[0], scope) if is_field else TYPES[tree.value]

    def list_of(self, tree: Expr, scope: Scope) -> list[Any]:
        items = []
        for operand in tree.operands:
            value = self.value(operand, scope)
            if operand.kind != "if_present":
                items.append(value)
            elif value.present:
                items.append(value.value)
        return items

    def map_of(self, tree: Expr, scope: Scope) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for key_tree, value_tree in zip(tree.operands[::2], tree.operands[1::2], strict=True):
            is_optional = key_tree.kind == "if_present"
            key = self.value(key_tree.operands[0] if is_optional else key_tree, scope)
            value = self.value(value_tree, scope)
            if not isinstance(key, str | int | float):
                raise CelError("a key of a map is a string, a number or a boolean")
            if is_optional:
                value = _expect_optional(value)
                if not value.present:
                    continue
                value = value.value
            entries[key] = value
        return entries

    def if_present(self, tree: Expr, scope: Scope) -> OptionalValue:
        return _expect_optional(self.value(tree.operands[0], scope))

    # Fields

    def select(self, tree: Expr, scope: Scope) -> Any:
        target = self.value(tree.operands[0], scope)
        return (
            optional_entry(target, tree.value)
            if isinstance(target, OptionalValue)
            else entry(target, tree.value)
        )

    def index(self, tree: Expr, scope: Scope) -> Any:
        target, key = (self.value(operand, scope) for operand in tree.operands)
        return optional_entry(target, key) if isinstance(target, OptionalValue) else entry(target, key)

    def optional_index(self, tree: Expr, scope: Scope) -> OptionalValue:
        target, key = (self.value(operand, scope) for operand in tree.operands)
        return optional_entry(target, key)

    def has(self, tree: Expr, scope: Scope) -> bool:
        target = self.value(tree.operands[0], scope)
        if isinstance(target, OptionalValue):
            target = target.value
        return has_entry(target, tree.value)

    # Operators

    def both(self, tree: Expr, scope: Scope) -> bool:
        return any_or_all(self, ((operand, scope) for operand in tree.operands), decides=False)

    def either(self, tree: Expr, scope: Scope) -> bool:
        return any_or_all(self, ((operand, scope) for operand in tree.operands), decides=True)

    def choose(self, tree: Expr, scope: Scope) -> Any:
        condition, then, otherwise = tree.operands
        return self.value(then if self.truth(condition, scope) else otherwise, scope)

    def invert(self, tree: Expr, scope: Scope) -> bool:
        return not self.truth(tree.operands[0], scope)

    def negate(self, tree: Expr, scope: Scope) -> Any:
        return negated(self.value(tree.operands[0], scope))

    def truth(self, tree: Expr, scope: Scope) -> bool:
        """Return the value of a condition."""
        value = self.value(tree, scope)
        if not isinstance(value, bool):
            raise CelError(f"no such overload for {type_name(value)}")
        return value

    def binary(self, tree: Expr, scope: Scope) -> Any:
        first, second = (self.value(operand, scope) for operand in tree.operands)
        return computed(tree.value, first, second, self.charge)

    # Calls

    def call(self, tree: Expr, scope: Scope) -> Any:
        arguments = [self.value(operand, scope) for operand in tree.operands]
        return call_function(tree.value, arguments, self.charge)

    def method(self, tree: Expr, scope: Scope) -> Any:
        if qualified := _qualified(tree):
            arguments = [self.value(operand, scope) for operand in tree.operands[1:]]
            return call_function(qualified, arguments, self.charge)
        if tree.value in CHOICES:
            return self._chosen(tree, scope)
        return call_method(tree.value, [self.value(operand, scope) for operand in tree.operands], self.charge)

    def _chosen(self, tree: Expr, scope: Scope) -> Any:
        """Return an optional value or its alternative, which is evaluated only if it is needed."""
        if len(tree.operands) != 2:
            raise CelError(f"{tree.value} takes one argument")
        one = self.value(tree.operands[0], scope)
        if not isinstance(one, OptionalValue):
            return one
        if one.present:
            return one if tree.value == "or" else one.value
        return self.value(tree.operands[1], scope)

    def bind(self, tree: Expr, scope: Scope) -> Any:
        return self.value(tree.operands[1], {**scope, tree.value: self.value(tree.operands[0], scope)})

    def optional_map(self, tree: Expr, scope: Scope) -> OptionalValue:
        name, variable = tree.value
        target = _expect_optional(self.value(tree.operands[0], scope))
        if not target.present:
            return target
        value = self.value(tree.operands[1], {**scope, variable: target.value})
        if name == "optMap":
            return OptionalValue(value, present=True)
        return _expect_optional(value)

    def macro(self, tree: Expr, scope: Scope) -> Any:
        return expanded(self, tree, scope)


def _expect_optional(value: Any) -> OptionalValue:
    if not isinstance(value, OptionalValue):
        raise CelError(f"no such overload: {type_name(value)} is no optional value")
    return value


_EVALUATORS: dict[str, Callable[[_Evaluation, Expr, Scope], Any]] = {
    "constant": _Evaluation.constant,
    "variable": _Evaluation.variable,
    "type": _Evaluation.named_type,
    "list": _Evaluation.list_of,
    "map": _Evaluation.map_of,
    "if_present": _Evaluation.if_present,
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
