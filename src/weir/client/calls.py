"""A call as data, and the decorators that make methods of both clients from functions that return calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, update_wrapper
from importlib import import_module
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from weir.client.errors import PoolError, Refused

if TYPE_CHECKING:
    from pydantic import BaseModel

Answered = TypeVar("Answered")
Form = TypeVar("Form", bound="BaseModel")
Row = TypeVar("Row")
Result_co = TypeVar("Result_co", covariant=True)
Words = ParamSpec("Words")

_DETAIL_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class Call(Generic[Result_co]):
    """A request. `reads` makes the answer from the bytes of a successful response."""

    method: str
    path: str
    reads: Callable[[bytes], Result_co]
    params: Mapping[str, str] = field(default_factory=dict)
    body: object = None

    def after(self, start: str) -> Call[Result_co]:
        """Return the call for the page that begins at `start`."""
        return replace(self, params={**self.params, "after": start})


class LazyModule:
    """A module that is imported when one of its names is used: a client needs few of all answers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


class RowPage(Protocol[Result_co]):
    """A page of a list."""

    @property
    def items(self) -> Sequence[Result_co]:
        """Return the rows of this page."""

    @property
    def next(self) -> str | None:
        """Return the start of the next page; None on the last page."""


class Sender(ABC):
    """Sends calls and waits for their answers."""

    @abstractmethod
    def send(self, call: Callable[[], Call[Answered]]) -> Answered:
        """Send a call and return its answer."""

    @abstractmethod
    def iterate(self, call: Callable[[], Call[RowPage[Row]]]) -> Iterator[Row]:
        """Yield the rows of all pages; request a page when its first row is needed."""

    def rows(self, call: Callable[[], Call[RowPage[Row]]]) -> Sequence[Row]:
        """Return the rows of all pages."""
        return list(self.iterate(call))


class AsyncSender(ABC):
    """Sends calls in an event loop."""

    @abstractmethod
    async def send(self, call: Callable[[], Call[Answered]]) -> Answered:
        """Send a call and return its answer."""

    @abstractmethod
    def iterate(self, call: Callable[[], Call[RowPage[Row]]]) -> AsyncIterator[Row]:
        """Yield the rows of all pages; request a page when its first row is needed."""

    async def rows(self, call: Callable[[], Call[RowPage[Row]]]) -> Sequence[Row]:
        """Return the rows of all pages."""
        return [row async for row in self.iterate(call)]


class _Method(Generic[Words, Answered]):
    """Descriptor of a client's method. `sender` names the method of the client that sends the call."""

    sender = ""

    def __init__(self, make: Callable[Concatenate[Any, Words], Call[Answered]]) -> None:
        self._make = make
        update_wrapper(self, make)  # type: ignore[arg-type]

    def _bind(self, client: Any) -> Any:
        if client is None:
            return self
        send = getattr(client, self.sender)
        make = MethodType(self._make, client)

        def method(*args: Any, **kwargs: Any) -> Any:
            return send(partial(make, *args, **kwargs))

        return update_wrapper(method, make)


class endpoint(_Method[Words, Answered]):  # noqa: N801 - a decorator
    """Make a method that returns the answer of a call."""

    sender = "send"

    @overload
    def __get__(self, client: Sender, owner: object) -> Callable[Words, Answered]: ...
    @overload
    def __get__(
        self, client: AsyncSender, owner: object
    ) -> Callable[Words, Coroutine[Any, Any, Answered]]: ...
    def __get__(self, client: Any, owner: object) -> Any:
        return self._bind(client)


class row_list(_Method[Words, RowPage[Row]], Generic[Words, Row]):  # noqa: N801
    """Make a method that returns the rows of all pages."""

    sender = "rows"

    @overload
    def __get__(self, client: Sender, owner: object) -> Callable[Words, Sequence[Row]]: ...
    @overload
    def __get__(
        self, client: AsyncSender, owner: object
    ) -> Callable[Words, Coroutine[Any, Any, Sequence[Row]]]: ...
    def __get__(self, client: Any, owner: object) -> Any:
        return self._bind(client)


class row_iterator(_Method[Words, RowPage[Row]], Generic[Words, Row]):  # noqa: N801
    """Make a method that iterates over the rows of all pages."""

    sender = "iterate"

    @overload
    def __get__(self, client: Sender, owner: object) -> Callable[Words, Iterator[Row]]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: object) -> Callable[Words, AsyncIterator[Row]]: ...
    def __get__(self, client: Any, owner: object) -> Any:
        return self._bind(client)


def form(model: type[Form]) -> Callable[[bytes], Form]:
    """Return a function that reads an answer of a form."""
    from pydantic import ValidationError

    from weir.api.workload_list import FROM_SERVER

    def read(raw: bytes) -> Form:
        try:
            return model.model_validate_json(raw, context=FROM_SERVER)
        except ValidationError as error:
            raise PoolError(
                "The answer is not from a pool of this version: check the address, or use the same version "
                "for both."
            ) from error

    return read


def nothing(_raw: bytes) -> None:
    """Accept an answer without content."""


def refusal(status: int, raw: bytes) -> Refused:
    """Return the error of an unsuccessful answer."""
    from pydantic import ValidationError

    from weir.api.answers import Problem

    try:
        return Refused(Problem.model_validate_json(raw))
    except ValidationError:
        text = " ".join(raw[:_DETAIL_LENGTH_MAX].decode("utf-8", "replace").split())
        detail = text or f"the pool answered {status} without an explanation"
        return Refused(Problem(title="The pool refused", status=status, detail=detail))
