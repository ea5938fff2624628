"""Rates of pods, made of the kubelet's counts: what is known, and what a restart or an old count leaves unknown."""

import pytest

from weir.kubernetes.node.kubelet_metrics import LoadRates, NoKubeletMetrics, PodLoad

RUNS = ("team", "runs")
CPU, RECEIVED, SENT = (
    "container_cpu_usage_seconds_total",
    "container_network_receive_bytes_total",
    "container_network_transmit_bytes_total",
)


def line(name: str, value: float, at_s: int, pod: str = "runs", **labels: str) -> str:
    found = {"container": "main", "id": "/kubepods/a", "namespace": "team", "pod": pod, **labels}
    text = ",".join(f'{key}="{each}"' for key, each in found.items())
    return f"{name}{{{text}}} {value} {at_s}000\n"


def metrics(at_s: int, cores_s: float, traffic: float = 0) -> str:
    return (
        "# HELP container_cpu_usage_seconds_total Cumulative time.\n"
        "# TYPE container_cpu_usage_seconds_total counter\n"
        + line(CPU, cores_s, at_s)
        + line(CPU, 10_000, at_s, container="")
        + line(CPU, 10_000, at_s, container="POD")
        + line(CPU, 10_000, at_s, namespace="", pod="")
        + line("container_memory_usage_bytes", 5, at_s)
        + line(RECEIVED, traffic, at_s, container="", interface="eth0")
    )


def test_a_rate_needs_two_counts_of_one_container() -> None:
    rates = LoadRates()
    assert rates.take(metrics(0, 5, 100)) == {RUNS: PodLoad()}
    assert rates.take(metrics(10, 25, 600)) == {RUNS: PodLoad(2.0, None, 50.0)}
    assert rates.take(metrics(10, 25, 600)) == {RUNS: PodLoad(2.0, None, 50.0)}, "it hasn't measured again"
    assert rates.take(metrics(20, 25, 600)) == {RUNS: PodLoad(0.0, None, 0.0)}


def test_containers_disks_and_interfaces_add_up_and_a_new_one_makes_the_sum_unknown() -> None:
    def taken(at_s: int, *containers: str) -> PodLoad:
        text = "".join(line(CPU, at_s / 10, at_s, id=each) for each in containers)
        for name in (RECEIVED, SENT):
            text += "".join(line(name, at_s, at_s, container="", interface=each) for each in ("eth0", "ib0"))
        for name in ("container_fs_reads_bytes_total", "container_fs_writes_bytes_total"):
            text += line(name, 3 * at_s, at_s, device="/dev/sda")
        return rates.take(text)[RUNS]

    rates = LoadRates()
    taken(10, "a", "b")
    assert taken(20, "a", "b") == pytest.approx((0.2, 6.0, 4.0))
    assert taken(30, "a", "b", "c").cores is None
    assert taken(40, "a", "b", "c").cores == pytest.approx(0.3)
    assert taken(50, "a").cores == pytest.approx(0.1)


def test_a_count_that_fell_and_a_clock_that_was_set_back_are_unknown_once() -> None:
    rates = LoadRates()
    rates.take(metrics(10, 5))
    assert rates.take(metrics(20, 1))[RUNS].cores is None
    assert rates.take(metrics(30, 2))[RUNS].cores == 0.1
    assert rates.take(metrics(25, 3))[RUNS].cores is None


def test_a_count_that_the_kubelet_no_longer_renews_is_unknown() -> None:
    rates = LoadRates()
    rates.take(metrics(0, 0))
    rates.take(metrics(10, 1))
    found = rates.take(metrics(10, 1) + line(CPU, 1, 130, pod="new"))
    assert found[RUNS] == PodLoad()
    assert ("team", "new") in found


def test_values_that_no_count_has_are_left_out() -> None:
    rates = LoadRates()
    for value in ("NaN", "-1", "+Inf"):
        assert rates.take(f'{CPU}{{container="a",namespace="n",pod="p"}} {value} 1000\n') == {}
    assert rates.take(f'{CPU}{{container="a",namespace="n",pod="p"}} 1\n') == {}, "without a time"
    assert rates.take("") == {}
    assert rates.take("Unauthorized") == {}


@pytest.mark.parametrize("text", [f"{CPU}{{", f'{CPU}{{container="a"}} x 1\n', f"{CPU}{{a}} 1 1\n"])
def test_nonsense_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(NoKubeletMetrics, match="can't be read"):
        LoadRates().take(text)
