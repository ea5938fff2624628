"""Measurements of pods from series: what is known, and what is unknown instead of 0."""

from collections.abc import Mapping
from typing import Any

import pytest

from weir.kubernetes.crd.usage_settings import UsageSettings
from weir.kubernetes.usage.pod_metrics import NAMESPACES_MAX, DeviceMetrics, PodMetrics, read_pods
from weir.kubernetes.usage.series import Series

SETTINGS = UsageSettings("http://x")
A, B = ("team", "a"), ("team", "b")
ACTIVITY, UTILIZATION, MEMORY = SETTINGS.activity_metric, SETTINGS.utilization_metric, SETTINGS.memory_metric


class Answers:
    """Series by the metric that a query begins with."""

    def __init__(self, series: Mapping[str, list[Series]]) -> None:
        self._series = series
        self.queries: list[str] = []

    def query(self, expression: str) -> list[Series]:
        self.queries.append(expression)
        return next((found for name, found in self._series.items() if name in expression), [])


def series(pod: tuple[str, str], values: list[float], **labels: Any) -> Series:
    words = {"exported_namespace": pod[0], "exported_pod": pod[1], "namespace": "gpu-operator", "pod": "dcgm"}
    words |= {"UUID": "GPU-1", "gpu": "0"}
    return Series(words | labels, [(float(at), value) for at, value in enumerate(values)])


def devices(found: Mapping[str, list[Series]]) -> tuple[DeviceMetrics, ...]:
    return read_pods(Answers(found), SETTINGS, {A, B}).pods[A].devices


def test_activity_comes_before_utilization_and_the_peak_is_of_both() -> None:
    found = devices(
        {
            ACTIVITY: [series(A, [0.2, 0.4])],
            UTILIZATION: [series(A, [10, 90])],
            MEMORY: [series(A, [100, 200])],
        }
    )
    (only,) = found
    assert only.place == (0, "GPU-1")
    assert only.use == pytest.approx(0.3)
    assert (only.peak, only.memory_used) == (0.9, 200 << 20)


def test_labels_of_a_server_that_honours_them_are_read_too() -> None:
    labels = {"namespace": "team", "pod": "a", "UUID": "GPU-1", "gpu": "0"}
    (only,) = devices({UTILIZATION: [Series(labels, [(0.0, 50.0)])]})
    assert only.use == 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {ACTIVITY: [series(A, [0.0], GPU_I_ID="3", GPU_I_PROFILE="1g.10gb")]},
        {ACTIVITY: [series(A, [0.0]), series(B, [0.0])]},  # one device, two pods
        {ACTIVITY: [series(A, [0.0])], UTILIZATION: [series(A, [-1.0])]},
        {ACTIVITY: [series(A, [0.0, 17.0])]},
        {MEMORY: [series(A, [100])]},
        {ACTIVITY: [series(A, [0.0], vgpu="2")]},
    ],
    ids=["part", "shared", "negative", "too much", "memory alone", "replica"],
)
def test_what_is_not_certain_is_unknown(wrong: Mapping[str, list[Series]]) -> None:
    (only,) = devices(wrong)
    assert (only.use, only.peak) == (None, None)


def test_devices_are_in_the_order_of_their_numbers() -> None:
    found = devices({UTILIZATION: [series(A, [at], gpu=str(at), UUID=f"GPU-{9 - at}") for at in (2, 0, 1)]})
    assert [each.place[0] for each in found] == [0, 1, 2]


def test_series_of_no_pod_or_device_are_left_out() -> None:
    for labels in ({"exported_pod": "a"}, {"UUID": "GPU-1"}, {"namespace": "team", "pod": "a"}, {}):
        assert devices({ACTIVITY: [Series(labels, [(0.0, 0.5)])]}) == ()


def test_rates_are_of_pods_whose_namespaces_the_query_names() -> None:
    def rate(pod: tuple[str, str], value: float) -> Series:
        return Series({"namespace": pod[0], "pod": pod[1]}, [(1.0, value)])

    source = Answers(
        {
            "container_cpu": [rate(A, 1.5), rate(("other", "x"), 9.0)],
            "container_fs": [rate(A, 10.0)],
            "container_network": [rate(A, 20.0), rate(B, -3.0)],
        }
    )
    found = read_pods(source, SETTINGS, {A, B}).pods
    assert found[A] == PodMetrics((), 1.5, 10.0, 20.0)
    assert found[B] == PodMetrics()
    assert all('namespace=~"team"' in query for query in source.queries if "container_" in query)
    many = {(f"n{at}", "p") for at in range(NAMESPACES_MAX + 1)}
    source = Answers({})
    assert read_pods(source, SETTINGS, many).newest_s is None
    assert not any("namespace=~" in query for query in source.queries)


def test_a_name_that_no_namespace_has_never_reaches_a_query() -> None:
    source = Answers({})
    read_pods(source, SETTINGS, {('x"} or up or {a="', "p"), A})
    assert not any(" or " in query for query in source.queries)
