"""Macros of CEL over the items of lists and maps, with one or two variables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from weir.kubernetes.claims.cel.lists import sorted_by
from weir.kubernetes.claims.cel.overloads import expect_size
from weir.kubernetes.claims.cel.syntax import Expr
from weir.kubernetes.claims.cel.values import CelError, has_key, type_name

Scope = Mapping[str, Any]


class Evaluation(Protocol):
    """Evaluation of expressions, as macros use it."""

    def value(self, tree: Expr, scope: Scope) -> Any:
        """Return the value of an expression."""
        ...

    def truth(self, tree: Expr, scope: Scope) -> bool:
        """Return the value of a condition."""
        ...

    def charge(self, steps: int) -> None:
        """Charge steps."""
        ...

    @property
    def is_spent(self) -> bool:
        """Return True if no steps are left."""
        ...


def expanded(evaluation: Evaluation, tree: Expr, scope: Scope) -> Any:
    """Return the value of a macro.

    Raises:
        CelError: the macro has no value.
    """
    name, variables = tree.value
    target = evaluation.value(tree.operands[0], scope)
    if not isinstance(target, list | Mapping):
        raise CelError(f"{name} takes a list or a map, not {type_name(target)}")
    evaluation.charge(len(target))
    bound = (
        {**scope, **dict(zip(variables, items, strict=False))} for items in _items(target, len(variables))
    )
    *conditions, body = tree.operands[1:]
    if name in ("all", "exists"):
        return any_or_all(evaluation, ((body, inner) for inner in bound), decides=name == "exists")
    if name in ("exists_one", "existsOne"):
        return sum(evaluation.truth(body, inner) for inner in bound) == 1
    if name == "filter":
        return [inner[variables[0]] for inner in bound if evaluation.truth(body, inner)]
    if conditions:
        bound = (inner for inner in bound if evaluation.truth(conditions[0], inner))
    if name == "sortBy":
        return _sorted(evaluation, target, [evaluation.value(body, inner) for inner in bound])
    if name in ("map", "transformList"):
        return [evaluation.value(body, inner) for inner in bound]
    return _mapped(evaluation, bound, body, variables[0] if name == "transformMap" else None)


def _items(target: list[Any] | Mapping[Any, Any], count: int) -> Iterator[tuple[Any, ...]]:
    """Return the values of each item's variables: for two, the index or key and the value."""
    if count == 1:
        return ((item,) for item in target)
    return iter(target.items() if isinstance(target, Mapping) else enumerate(target))


def any_or_all(evaluation: Evaluation, conditions: Iterable[tuple[Expr, Scope]], *, decides: bool) -> bool:
    """Return `decides` if a condition has this value; an error counts only if none has it.

    Raises:
        CelError: a condition has no value, and no other one decides.
    """
    failed: CelError | None = None
    for tree, scope in conditions:
        try:
            if evaluation.truth(tree, scope) is decides:
                return decides
        except CelError as error:
            if evaluation.is_spent:
                raise
            failed = error
    if failed is not None:
        raise failed
    return not decides


def _sorted(evaluation: Evaluation, target: Any, keys: list[Any]) -> list[Any]:
    if not isinstance(target, list):
        raise CelError(f"sortBy takes a list, not {type_name(target)}")
    return sorted_by(target, keys, evaluation.charge)


def _mapped(evaluation: Evaluation, bound: Iterator[Scope], body: Expr, key: str | None) -> dict[Any, Any]:
    """Return a map from a variable to the body's values, or the entries of the maps that the body gives."""
    entries: dict[Any, Any] = {}
    for inner in bound:
        value = evaluation.value(body, inner)
        if key is not None:
            value = {inner[key]: value}
        if not isinstance(value, Mapping):
            raise CelError(f"transformMapEntry takes a map, not {type_name(value)}")
        evaluation.charge(len(value))
        expect_size(len(entries) + len(value))
        for entry_key, entry in value.items():
            if has_key(entries, entry_key):
                raise CelError(f"the key {str(entry_key)[:100]} occurs twice")
            entries[entry_key] = entry
    return entries
