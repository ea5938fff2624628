"""Overloads of functions: the types of their arguments choose one, and all are bounded in cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any

from weir.kubernetes.claims.cel.literals import Unsigned
from weir.kubernetes.claims.cel.values import CelError, Charge, type_name

SIZE_MAX = 100_000
"""Characters, bytes or items of a value that an expression builds."""
TEXT_PER_STEP = 10
"""Characters that are read in the time of a step."""
Kind = type[Any] | UnionType
ANY: Kind = object


@dataclass(frozen=True, slots=True)
class Overload:
    """A function for arguments of these types, and its steps beyond those for its arguments.

    With `charges`, its last argument charges steps that the arguments decide.
    """

    kinds: tuple[Kind, ...]
    function: Callable[..., Any]
    charges: bool = False
    steps: int = 0


Overloads = Mapping[str, Sequence[Overload]]


def merged(*libraries: Overloads) -> dict[str, tuple[Overload, ...]]:
    """Return the overloads of several libraries; one name may have some in each."""
    names = dict.fromkeys(name for library in libraries for name in library)
    return {
        name: tuple(overload for library in libraries for overload in library.get(name, ())) for name in names
    }


def called(name: str, overloads: Sequence[Overload], arguments: Sequence[Any], charge: Charge) -> Any:
    """Return the value of the overload whose types the arguments have.

    Raises:
        CelError: there is none, it has no value for these arguments, or it costs too much.
    """
    for argument in arguments:
        charge_size(argument, charge)
    for overload in overloads:
        if len(overload.kinds) == len(arguments) and all(map(_fits, arguments, overload.kinds)):
            break
    else:
        types = ", ".join(map(type_name, arguments))
        raise CelError(f"no such overload: {name} with the arguments ({types})")
    charge(overload.steps)
    try:
        value = overload.function(*arguments, charge) if overload.charges else overload.function(*arguments)
    except OverflowError:
        raise CelError(f"{name} can't be called with a number that large") from None
    if isinstance(value, str | bytes | list):
        expect_size(len(value))
        charge_size(value, charge)
    return value


def succeeds(convert: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that is true of the arguments that another one has a value for."""

    def check(*arguments: Any) -> bool:
        try:
            convert(*arguments)
        except CelError:
            return False
        return True

    return check


def expect_size(size: int) -> None:
    """Check that a value has no more characters, bytes or items than an expression may build.

    Raises:
        CelError: the value has more.
    """
    if size > SIZE_MAX:
        raise CelError("a value is too large")


def charge_size(value: Any, charge: Charge) -> None:
    """Charge reading a value once."""
    if isinstance(value, str | bytes):
        charge(len(value) // TEXT_PER_STEP)
    elif isinstance(value, list):
        charge(len(value))


def _fits(value: Any, kind: Kind) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool | Unsigned))
