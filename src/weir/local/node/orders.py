"""Orders of the server to the node process, and its answers: typed, bounded, one message each."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from weir.local.cgroups import Limits

MESSAGE_MAX = 1 << 14
_NAME = re.compile(r"[0-9]{1,18}/[0-9]{1,18}-[0-9]{1,9}-[0-9]{1,9}", re.ASCII)
_ACCOUNT = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}\$?)?", re.ASCII)
_NUMBER_MAX = 1 << 62
_UID_MAX = 10**18
_DEVICES_MAX = 4096
_RLIMITS = 16
"""Resources that the kernel limits for each process."""
_UNLIMITED = -1
SIGNALS = frozenset((15, 9))
"""SIGTERM and SIGKILL: no other signal is sent to a supervisor."""


class InvalidOrder(ValueError):
    """An order has the wrong form; the text names the mistake."""


Rlimit = tuple[int, int, int]
"""Resource limit of a process: the kernel's number of the resource, soft limit, hard limit; -1: unlimited."""


class StartOrder(NamedTuple):
    """Start a pod. Its open files are sent with the message.

    `account`: the user to run as; empty for the node process's own. `devices`: the GPUs that the pod may
    open. `rlimits`: limits of its processes, as far as the hard limits of the node process allow them.
    """

    name: str  # UID/START-GROUP-INDEX
    account: str
    devices: tuple[int, ...]
    limits: Limits
    rlimits: tuple[Rlimit, ...] = ()


class SignalOrder(NamedTuple):
    """Send a signal to a supervisor, whose pidfd is sent with the message."""

    number: int


class GpuMemoryOrder(NamedTuple):
    """Limit the memory of each GPU of a running start, and read the limits back."""

    name: str
    devices: tuple[int, ...]
    memory: int


class KillOrder(NamedTuple):
    """Kill every process of a start."""

    name: str


class JoinOrder(NamedTuple):
    """Put a process of a start's own user into the start's groups; its pidfd is sent with the message."""

    name: str


class RemoveOrder(NamedTuple):
    """Delete the directories of a workload's jobs, or its checkpoints."""

    uid: int
    checkpoints: bool


class NodeAnswer(NamedTuple):
    """Outcome of an order.

    `refused`: why the order wasn't carried out. `killed`: True if processes had to be killed; `left`: number
    of processes that still exist. `memory_limit`: the answer is about a limit of GPU memory, which is set
    unless it was refused.
    """

    name: str = ""
    refused: str = ""
    killed: bool = False
    left: int = 0
    memory_limit: bool = False


Order = StartOrder | SignalOrder | KillOrder | JoinOrder | GpuMemoryOrder | RemoveOrder


def decode(message: bytes) -> Order:
    """Return the order in a message.

    Raises:
        InvalidOrder: the message has the wrong form.
    """
    try:
        word, *values = json.loads(message)
        read = _READERS[word]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidOrder("the message is no order") from None
    order: Order = read(values)
    return order


def encode_answer(answer: NodeAnswer) -> bytes:
    """Return an answer as a message."""
    return json.dumps(answer).encode()


Reader = Callable[[object], Any]
"""Function that returns a checked value, or raises `InvalidOrder`."""


def _record(make: Callable[..., Any], *readers: Reader) -> Reader:
    def read(value: object) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise InvalidOrder(f"{len(readers)} values are needed")
        return make(*(read(part) for read, part in zip(readers, value, strict=True)))

    return read


def _items(read_one: Reader, most: int) -> Reader:
    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise InvalidOrder(f"a list of at most {most} is needed")
        return tuple(map(read_one, value))

    return read


def _value(is_right: Callable[[Any], bool], wanted: str) -> Reader:
    def read(value: object) -> object:
        if not is_right(value):
            raise InvalidOrder(f"{wanted} is needed")
        return value

    return read


def _text(form: re.Pattern[str]) -> Reader:
    return _value(lambda value: isinstance(value, str) and bool(form.fullmatch(value)), "a name")


def _whole(most: int, least: int = 0) -> Reader:
    wanted = f"an integer from {least} to {most}"
    return _value(lambda value: type(value) is int and least <= value <= most, wanted)


_flag = _value(lambda value: isinstance(value, bool), "true or false")
_signal = _value(lambda value: type(value) is int and value in SIGNALS, "SIGTERM or SIGKILL")
_start_name, _number = _text(_NAME), _whole(_NUMBER_MAX)
_device_list = _items(_whole(_DEVICES_MAX), _DEVICES_MAX)
_limits = _record(Limits, *[_number] * 4)
_rlimit = _record(lambda *values: values, _whole(_RLIMITS - 1), *[_whole(_NUMBER_MAX, _UNLIMITED)] * 2)
_start = (_start_name, _text(_ACCOUNT), _device_list, _limits, _items(_rlimit, _RLIMITS))
_READERS: dict[str, Reader] = {
    kind.__name__: _record(kind, *readers)
    for kind, readers in (
        (StartOrder, _start),
        (SignalOrder, (_signal,)),
        (KillOrder, (_start_name,)),
        (JoinOrder, (_start_name,)),
        (GpuMemoryOrder, (_start_name, _device_list, _whole(_NUMBER_MAX, 1))),
        (RemoveOrder, (_whole(_UID_MAX), _flag)),
    )
}
"""Readers of the values of each order, by the name of its class, which is the first word of a message."""
