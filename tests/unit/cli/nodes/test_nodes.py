"""The table of nodes."""

import pytest

from weir.api.answers import DeviceRow, NodeRow
from weir.cli.nodes.commands import NODES


def state(*devices: DeviceRow) -> str:
    """Return the cell of the state of a node with these devices."""
    node = NodeRow(name="n", devices=list(devices), capacity={}, allocated={}, labels={}, pods=0, others=0)
    (column,) = (each for each in NODES if each.head == "STATE")
    return column.cell(node)


def device(index: int, *, drained: str | None = None, foreign: str | None = None) -> DeviceRow:
    return DeviceRow(index=index, model=None, memory=1, allocated=0.0, drained=drained, foreign=foreign)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ((), "-"),
        ((3,), "GPU 3 used by other schedulers"),
        ((0, 1, 2, 3, 4, 5, 6, 7), "GPUs 0-7 used by other schedulers"),
        ((0, 1, 3, 6, 7), "GPUs 0-1,3,6-7 used by other schedulers"),
    ],
)
def test_a_state_that_gpus_share_is_there_once(used: tuple[int, ...], expected: str) -> None:
    devices = (device(at, foreign="other schedulers" if at in used else None) for at in range(8))
    assert state(*devices) == expected


def test_different_states_of_gpus_stay_apart() -> None:
    found = state(device(0, drained="drained by mia"), device(1, foreign="root"), device(2, foreign="joe"))
    assert found == "GPU 0 drained by mia, GPU 1 used by root, GPU 2 used by joe"
