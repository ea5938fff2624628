"""Orders of the server to the node process, and its answers: typed, bounded, one message each."""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

MESSAGE_MOST = 1 << 14
_NAME = re.compile(r"[0-9]{1,18}/[0-9]{1,18}-[0-9]{1,9}-[0-9]{1,9}", re.ASCII)
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}\$?", re.ASCII)
_NUMBER_MOST = 1 << 62
_UID_MOST = 10**18
_DEVICES_MOST = 4096
SIGNALS = frozenset((15, 9))
"""SIGTERM and SIGKILL: no other signal is sent to a supervisor."""


class InvalidOrder(ValueError):
    """An order has the wrong form; the text says what is wrong."""


class Limits(NamedTuple):
    """Limits of a pod's control groups; 0: none. `cpu_hard`: processors are a limit, not only a share."""

    memory: int = 0  # bytes
    cpu_milli: int = 0
    cpu_hard: bool = False
    pids: int = 0  # processes and threads together


class StartOrder(NamedTuple):
    """Start a pod. Its open files come with the message.

    `account`: the user it runs as; empty for the node process's own. `devices`: the GPUs it may open.
    """

    name: str  # UID/START-GROUP-INDEX
    account: str
    devices: tuple[int, ...]
    limits: Limits


class SignalOrder(NamedTuple):
    """Send a signal to a supervisor, whose pidfd comes with the message."""

    number: int


class KillOrder(NamedTuple):
    """Kill every process of a start."""

    name: str


class JoinOrder(NamedTuple):
    """Put a process of a start's own user, whose pidfd comes with the message, into the start's groups."""

    name: str


class RemoveOrder(NamedTuple):
    """Delete the directories of a workload's jobs, or its checkpoints."""

    uid: int
    checkpoints: bool


Order = StartOrder | SignalOrder | KillOrder | JoinOrder | RemoveOrder
_KINDS: dict[str, type[Order]] = {
    "start": StartOrder,
    "signal": SignalOrder,
    "kill": KillOrder,
    "join": JoinOrder,
    "remove": RemoveOrder,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class NodeAnswer(NamedTuple):
    """Outcome of an order. `refused`: why it wasn't carried out.

    `killed`: whether processes had to be; `left`: how many are still there.
    """

    name: str = ""
    refused: str = ""
    killed: bool = False
    left: int = 0


def encode(order: Order) -> bytes:
    """Return an order as a message."""
    return json.dumps([_NAMES[type(order)], *order]).encode()


def decode(message: bytes) -> Order:
    """Return the order in a message.

    Raises:
        InvalidOrder: it has the wrong form.
    """
    try:
        kind, *values = json.loads(message)
        read, fields = _READERS[kind], _KINDS[kind]._fields
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidOrder("the message is no order") from None
    if len(values) != len(fields):
        raise InvalidOrder(f"the order {kind} has {len(values)} values")
    return read(*values)


def encode_answer(answer: NodeAnswer) -> bytes:
    """Return an answer as a message."""
    return json.dumps(answer).encode()


def decode_answer(message: bytes) -> NodeAnswer:
    """Return the answer in a message of the node process."""
    return NodeAnswer(*json.loads(message))


def _start(name: object, account: object, devices: object, limits: object) -> StartOrder:
    if not isinstance(devices, list) or len(devices) > _DEVICES_MOST:
        raise InvalidOrder("devices is not a list of GPUs")
    if not isinstance(limits, list) or len(limits) != len(Limits._fields):
        raise InvalidOrder("limits is not a list of four values")
    memory, cpu_milli, cpu_hard, pids = limits
    return StartOrder(
        _text(name, _NAME, "name"),
        "" if account == "" else _text(account, _ACCOUNT, "account"),
        tuple(_whole(each, _DEVICES_MOST, "a device") for each in devices),
        Limits(
            _whole(memory, _NUMBER_MOST, "memory"),
            _whole(cpu_milli, _NUMBER_MOST, "cpu_milli"),
            _flag(cpu_hard, "cpu_hard"),
            _whole(pids, _NUMBER_MOST, "pids"),
        ),
    )


def _signal(number: object) -> SignalOrder:
    order = SignalOrder(_whole(number, max(SIGNALS), "number"))
    if order.number not in SIGNALS:
        raise InvalidOrder("number is neither SIGTERM nor SIGKILL")
    return order


def _kill(name: object) -> KillOrder:
    return KillOrder(_text(name, _NAME, "name"))


def _join(name: object) -> JoinOrder:
    return JoinOrder(_text(name, _NAME, "name"))


def _remove(uid: object, checkpoints: object) -> RemoveOrder:
    return RemoveOrder(_whole(uid, _UID_MOST, "uid"), _flag(checkpoints, "checkpoints"))


_READERS: dict[str, Callable[..., Order]] = {
    "start": _start,
    "signal": _signal,
    "kill": _kill,
    "join": _join,
    "remove": _remove,
}


def _text(value: object, form: re.Pattern[str], name: str) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise InvalidOrder(f"{name} has the wrong form")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidOrder(f"{name} is neither true nor false")
    return value


def _whole(value: object, most: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidOrder(f"{name} is not an integer from 0 to {most}")
    return value
