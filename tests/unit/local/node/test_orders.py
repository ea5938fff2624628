"""Orders to the node process: whatever a message contains, it is a checked order or it is refused."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.local.cgroups import Limits
from weir.local.node.orders import (
    GpuMemoryOrder,
    InvalidOrder,
    JoinOrder,
    KillOrder,
    RemoveOrder,
    SignalOrder,
    StartOrder,
    decode,
)
from weir.local.processes.node_client import encode

ORDERS = [
    StartOrder("1/2-0-0", "ann", (0, 3), Limits(1 << 30, 1500, 400, 1 << 30), ((7, 1024, -1),)),
    GpuMemoryOrder("1/2-0-0", (0, 3), 1 << 30),
    StartOrder("999/1-2-3", "", (), Limits()),
    SignalOrder(15),
    SignalOrder(9),
    KillOrder("1/2-0-0"),
    JoinOrder("1/2-0-0"),
    RemoveOrder(7, True),
]
START = ["StartOrder", "1/2-0-0", "ann", [0], [0, 0, 0, 0], [[7, 1024, -1]]]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from([*(type(order).__name__ for order in ORDERS), "run", ""])


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_an_order_arrives_as_it_was_sent(order) -> None:
    assert decode(encode(order)) == order


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (1, "../../etc/1-0-0"),
        (1, "1/2-0-0/.."),
        (1, "1/2-0-0\n"),
        (1, "٣/2-0-0"),
        (1, 12),
        (2, "../ann"),
        (2, "ann\n"),
        (2, "ann:0"),
        (2, "-ann"),
        (2, None),
        (2, 0),
        (3, [-1]),
        (3, [True]),
        (3, ["0"]),
        (3, {"0": 1}),
        (3, [0] * 5000),
        (4, [0, 0, 0]),
        (4, [-1, 0, 0, 0]),
        (4, [0, 0, True, 0]),
        (4, [1 << 70, 0, 0, 0]),
        (4, [0, 0, 0, -1]),
        (5, [[16, 0, 0]]),
        (5, [[-1, 0, 0]]),
        (5, [[7, -2, 0]]),
        (5, [[7, 0, 1 << 70]]),
        (5, [[7, 0]]),
        (5, [[7, True, 0]]),
        (5, [[7, 0, 0]] * 17),
        (5, {"7": [0, 0]}),
        (5, None),
    ],
)
def test_a_start_with_a_wrong_value_is_refused(at: int, value: object) -> None:
    message = [*START]
    message[at] = value
    with pytest.raises(InvalidOrder):
        decode(json.dumps(message).encode())


@pytest.mark.parametrize("number", [0, 1, 2, 19, -15, 15.5, 15.0, True, "15", None, [15], {"15": 9}])
def test_only_two_signals_are_sent(number: object) -> None:
    with pytest.raises(InvalidOrder):
        decode(json.dumps(["SignalOrder", number]).encode())


@pytest.mark.parametrize("values", [[[0], 0], [[0], -5], [[0], 1.5], [[], None], ["0", 7], [[-1], 7], [[0]]])
def test_a_limit_of_memory_with_a_wrong_value_is_refused(values: list[object]) -> None:
    with pytest.raises(InvalidOrder):
        decode(json.dumps(["GpuMemoryOrder", "1/2-0-0", *values]).encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_an_order_or_refused(message: bytes) -> None:
    with contextlib.suppress(InvalidOrder):
        decode(message)


@given(KINDS, st.lists(VALUES, max_size=5))
def test_any_values_are_an_order_or_refused(kind: str, values: list[object]) -> None:
    try:
        order = decode(json.dumps([kind, *values]).encode())
    except InvalidOrder:
        return
    assert decode(encode(order)) == order
