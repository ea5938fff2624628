"""Measurements of pods, made of series: devices by the exporter of DCGM, processors by the kubelet.

What isn't certain is unknown, and never 0: parts of a device (MIG), devices that several pods have, values
that no device can have.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, Protocol

from msgspec import Meta, Struct

from weir.kubernetes.crd.usage_settings import UsageSettings
from weir.kubernetes.usage.series import Series

WINDOW_S = 120
"""Time before a query whose samples count. Most servers scrape at least once in it."""
NAMESPACES_MAX = 100
"""Number of namespaces that a query names; it asks for all if there are more."""
MEMORY_MIB_MAX = float(1 << 24)
_EXCESS = 1.01
_PART_LABELS = ("GPU_I_ID", "GPU_I_PROFILE", "vgpu")
_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
Fraction = Annotated[float, Meta(ge=0, le=1)]
Pod = tuple[str, str]
"""Namespace and name."""


class SeriesSource(Protocol):
    """Answers queries."""

    def query(self, expression: str) -> list[Series]:
        """Return the series of an expression as they are now."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class DeviceMetrics(Struct, rename="camel", frozen=True):
    """A device of a pod, as agents of nodes report it, too. Values that aren't of this pod alone are None."""

    number: Annotated[int, Meta(ge=0, le=4096)]
    uuid: Annotated[str, Meta(max_length=128)]
    use: Fraction | None = None  # its mean
    peak: Fraction | None = None
    memory_used: Annotated[int, Meta(ge=0, le=1 << 50)] | None = None  # bytes

    @property
    def place(self) -> tuple[int, str]:
        """Return its number on the node, and its name."""
        return self.number, self.uuid


@dataclass(frozen=True, slots=True)
class PodMetrics:
    """Measurements of a pod: processor time per second, and bytes per second; None: unknown."""

    devices: tuple[DeviceMetrics, ...] = ()
    cores: float | None = None
    disk: float | None = None
    network: float | None = None


class MetricsReading(NamedTuple):
    """Measurements by pod, and the time of the newest sample by the server's clock; None without any."""

    pods: dict[Pod, PodMetrics]
    newest_s: float | None


@dataclass(slots=True)
class _DeviceSeries:
    """Values of all series of one device of one pod."""

    number: int = 0
    is_part: bool = False
    is_wrong: bool = False
    activity: list[float] = field(default_factory=list)
    utilization: list[float] = field(default_factory=list)
    memory: tuple[float, float] | None = None  # latest value and its time


def read_pods(source: SeriesSource, settings: UsageSettings, pods: Collection[Pod]) -> MetricsReading:
    """Return the measurements of these pods.

    Raises:
        PrometheusFailed: a query isn't answered.
    """
    devices, newest_s = _devices(source, settings)
    owners: defaultdict[str, set[Pod]] = defaultdict(set)
    for pod, name in devices:
        owners[name].add(pod)
    by_pod: defaultdict[Pod, list[DeviceMetrics]] = defaultdict(list)
    for (pod, name), device in devices.items():
        if pod in pods:
            by_pod[pod].append(_device_metrics(name, device, is_shared=len(owners[name]) > 1))
    rates = _rates(source, {namespace for namespace, _ in pods})
    metrics = {
        pod: PodMetrics(
            tuple(sorted(by_pod.get(pod, ()), key=lambda device: device.place)),
            *(rate.get(pod) for rate in rates),
        )
        for pod in pods
    }
    return MetricsReading(metrics, newest_s)


# Devices


def _devices(
    source: SeriesSource, settings: UsageSettings
) -> tuple[dict[tuple[Pod, str], _DeviceSeries], float | None]:
    newest_s: float | None = None
    devices: defaultdict[tuple[Pod, str], _DeviceSeries] = defaultdict(_DeviceSeries)
    for metric, most in (
        (settings.activity_metric, 1.0),
        (settings.utilization_metric, 100.0),
        (settings.memory_metric, MEMORY_MIB_MAX),
    ):
        for series in source.query(f"{metric}[{WINDOW_S}s]"):
            labels, latest_s = series.labels, max(series.samples)[0]
            newest_s = latest_s if newest_s is None else max(newest_s, latest_s)
            pod, name = _pod_of(labels), labels.get("UUID") or labels.get("uuid", "")
            if pod is None or not name:
                continue
            device = devices[pod, name]
            device.number = _number(labels.get("gpu", ""))
            device.is_part |= any(labels.get(label) for label in _PART_LABELS)
            values = [value for _, value in series.samples]
            if not all(0.0 <= value <= most * _EXCESS for value in values):
                device.is_wrong = True
            elif metric == settings.memory_metric:
                device.memory = max(device.memory or (0.0, 0.0), *series.samples)
            elif metric == settings.activity_metric:
                device.activity += values
            else:
                device.utilization += [value / 100.0 for value in values]
    return devices, newest_s


def _pod_of(labels: Mapping[str, str]) -> Pod | None:
    """Return the pod of a series. The server renames the labels if its own have the same names."""
    names = ("exported_namespace", "exported_pod")
    if not any(labels.get(label) for label in names):
        names = ("namespace", "pod")
    namespace, name = (labels.get(label, "") for label in names)
    return (namespace, name) if namespace and name else None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def _device_metrics(name: str, device: _DeviceSeries, *, is_shared: bool) -> DeviceMetrics:
    values = device.activity or device.utilization
    if device.is_part or device.is_wrong or is_shared or not values:
        return DeviceMetrics(device.number, name)
    return DeviceMetrics(
        device.number,
        name,
        min(1.0, sum(values) / len(values)),
        min(1.0, max(device.activity + device.utilization)),
        None if device.memory is None else int(device.memory[1]) << 20,
    )


# Processors, disks and network


def _rates(source: SeriesSource, namespaces: Collection[str]) -> list[dict[Pod, float]]:
    """Return cores, bytes of disks and bytes of the network, per second and pod."""
    within = _within(namespaces)
    cores = _rate("container_cpu_usage_seconds_total", f'{within}container!="",container!="POD"')
    return [
        _by_pod(source.query(cores)),
        *(
            _by_pod(
                source.query(
                    " + ".join(_rate(f"container_{counter}_bytes_total", within) for counter in pair)
                )
            )
            for pair in (("fs_reads", "fs_writes"), ("network_receive", "network_transmit"))
        ),
    ]


def _within(namespaces: Collection[str]) -> str:
    """Return a selector of namespaces; nothing if there are too many."""
    named = sorted(namespace for namespace in namespaces if _NAMESPACE.fullmatch(namespace))
    return f'namespace=~"{"|".join(named)}",' if 0 < len(named) <= NAMESPACES_MAX else ""


def _rate(metric: str, selector: str) -> str:
    return f"sum by (namespace, pod) (rate({metric}{{{selector}}}[{WINDOW_S}s]))"


def _by_pod(results: Sequence[Series]) -> dict[Pod, float]:
    rates = {}
    for series in results:
        pod = _pod_of(series.labels)
        value = series.samples[-1][1]
        if pod is not None and value >= 0:
            rates[pod] = value
    return rates
