"""Reports of nodes: whose pods they count for, how long, and what is no report."""

import msgspec
import pytest

from weir.kubernetes.usage.held_pods import DeviceHolder
from weir.kubernetes.usage.node_reports import STALE_S, NodeReport, NodeReports, PodReport
from weir.kubernetes.usage.pod_metrics import DeviceMetrics
from weir.model.workloads import WorkloadType


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def holder(name: str, node: str) -> DeviceHolder:
    return DeviceHolder(
        "team", name, f"uid-{name}", f"team/{name}", WorkloadType.TRAIN, node, (0,), is_exclusive=True
    )


def report(*names: str, use: float | None = 0.5) -> NodeReport:
    return NodeReport([PodReport("team", name, [DeviceMetrics(0, "GPU-a", use, use, 9)]) for name in names])


def test_a_report_counts_for_the_pods_of_its_own_node() -> None:
    reports = NodeReports()
    assert not reports.exist
    reports.take("n1", report("a", "b"))
    found = reports.read([holder("a", "n1"), holder("b", "n2"), holder("c", "n1")]).pods
    assert found.keys() == {("team", "a")}
    assert found["team", "a"].devices == (DeviceMetrics(0, "GPU-a", 0.5, 0.5, 9),)
    assert reports.exist


def test_a_node_that_is_silent_for_two_minutes_is_unknown_until_it_reports_again() -> None:
    clock = Clock()
    reports = NodeReports(clock, clock)
    reports.take("n1", report("a"))
    clock.now_s += STALE_S - 1
    reports.take("n2", report("b"))
    assert len(reports.read([holder("a", "n1"), holder("b", "n2")]).pods) == 2
    clock.now_s += 1
    assert reports.read([holder("a", "n1"), holder("b", "n2")]).pods.keys() == {("team", "b")}
    reports.take("n1", report("a", use=0.0))
    assert reports.read([holder("a", "n1")]).pods["team", "a"].devices[0].use == 0.0


def test_the_first_report_wakes_the_reader_once() -> None:
    reports, woken = NodeReports(), []
    reports.first = lambda: woken.append(1)
    for _ in range(3):
        reports.take("n1", report("a"))
    assert woken == [1]


@pytest.mark.parametrize(
    "text",
    [
        '{"pods": [{"namespace": "a", "name": "b", "devices": [{"number": 0, "uuid": "x", "use": 1.5}]}]}',
        '{"pods": [{"namespace": "a", "name": "b", "devices": [{"number": 0, "uuid": "x", "use": -0.1}]}]}',
        '{"pods": [{"namespace": "a", "name": "b", "devices": [{"number": 0, "uuid": "x", "use": NaN}]}]}',
        '{"pods": [{"namespace": "a", "name": "b", "devices": [{"number": 0, "uuid": "x", "memoryUsed": -1}]}]}',
        '{"pods": [{"namespace": "a", "name": "b", "network": 1e300}]}',
        '{"pods": [{"namespace": "a"}]}',
    ],
)
def test_numbers_that_no_device_can_have_make_it_no_report(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text, type=NodeReport)
