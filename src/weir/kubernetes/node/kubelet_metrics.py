"""Processor time and traffic of pods, from the metrics that the kubelet has of containers (cAdvisor).

The idle rules need them: a GPU may be quiet because its pod waits for data. They are the metrics that a
Prometheus server would scrape. The kubelet counts, so the rates are differences between its own measurements.
"""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

TIMEOUT_S = 10.0
BYTES_MAX = 64 << 20
OLD_S = 120.0
"""Age of a measurement, relative to the kubelet's newest one, from which on it is ignored."""
_CORES = "container_cpu_usage_seconds_total"
_KINDS = {
    _CORES: "cores",
    "container_fs_reads_bytes_total": "disk",
    "container_fs_writes_bytes_total": "disk",
    "container_network_receive_bytes_total": "network",
    "container_network_transmit_bytes_total": "network",
}
_PREFIXES = tuple(_KINDS)
Pod = tuple[str, str]


class NoKubeletMetrics(Exception):
    """The kubelet returns no metrics; the sentence says why."""


class PodLoad(NamedTuple):
    """Cores in use, and bytes per second of disks and of the network; None: unknown."""

    cores: float | None = None
    disk: float | None = None
    network: float | None = None


class _Count(NamedTuple):
    at_s: float
    value: float
    rate: float | None


class LoadRates:
    """Rates between the measurements of the kubelet."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], _Count] = {}

    def take(self, text: str) -> dict[Pod, PodLoad]:
        """Process new metrics, and return the rates of their pods.

        The rate of a pod is known if those of all its containers and interfaces are.

        Raises:
            NoKubeletMetrics: the metrics can't be read.
        """
        try:
            samples = list(_samples(text))
        except (ValueError, IndexError, KeyError) as error:
            raise NoKubeletMetrics(f"its metrics can't be read: {str(error)[:200]}") from None
        newest_s = max((_at_s(sample) for sample in samples), default=0.0)
        before, self._counts = self._counts, {}
        rates: dict[Pod, dict[str, list[float | None]]] = {}
        for sample in samples:
            key = (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items())))
            count = self._counts[key] = _counted(before.get(key), _at_s(sample), sample.value)
            pod = sample.labels["namespace"], sample.labels["pod"]
            fresh = count.rate if newest_s - count.at_s < OLD_S else None
            rates.setdefault(pod, {}).setdefault(_KINDS[sample.name], []).append(fresh)
        return {
            pod: PodLoad(**{kind: _sum(rates) for kind, rates in kinds.items()})
            for pod, kinds in rates.items()
        }


def _samples(text: str) -> Iterator[Sample]:
    """Yield the samples that count: of pods, and of processors those of containers alone."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith(_PREFIXES))
    for family in text_string_to_metric_families(lines + "\n"):
        for sample in family.samples:
            labels = sample.labels
            if sample.name not in _KINDS or not (labels.get("namespace") and labels.get("pod")):
                continue
            if sample.name == _CORES and labels.get("container", "") in ("", "POD"):
                continue
            if sample.timestamp is not None and 0.0 <= sample.value < float("inf"):
                yield sample


def _at_s(sample: Sample) -> float:
    return float(sample.timestamp or 0.0)


def _counted(before: _Count | None, at_s: float, value: float) -> _Count:
    if before is None or at_s < before.at_s or value < before.value:
        return _Count(at_s, value, None)  # the container was restarted: a difference has no meaning
    if at_s == before.at_s:
        return before
    return _Count(at_s, value, (value - before.value) / (at_s - before.at_s))


def _sum(rates: list[float | None]) -> float | None:
    measured = [rate for rate in rates if rate is not None]
    return sum(measured) if len(measured) == len(rates) else None


class KubeletMetrics:
    """Metrics of one kubelet. The files are read each time, because the kubelet replaces them."""

    def __init__(self, host: str, port: int, authority: Path, token: Path, *, verify: bool = True) -> None:
        shown = f"[{host}]" if ":" in host else host
        self._url = f"https://{shown}:{port}/metrics/cadvisor"
        self._authority = authority
        self._token = token
        self._verify = verify
        self._rates = LoadRates()

    def read(self) -> dict[Pod, PodLoad]:
        """Return the load of each pod since the reading before.

        Raises:
            NoKubeletMetrics: the kubelet doesn't answer.
        """
        try:
            tls = ssl.create_default_context(cafile=str(self._authority))
            if not self._verify:
                tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            token = self._token.read_text(encoding="ascii").strip()
        except (OSError, ssl.SSLError, UnicodeDecodeError) as error:
            raise NoKubeletMetrics(f"the token or the CA certificate can't be read: {error}") from None
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        body = bytearray()
        try:
            with (
                httpx.Client(verify=tls, timeout=TIMEOUT_S, trust_env=False, headers=headers) as client,
                client.stream("GET", self._url) as answer,
            ):
                for part in answer.iter_raw(1 << 16):
                    body += part
                    if len(body) > BYTES_MAX:
                        raise NoKubeletMetrics(f"its metrics are larger than {BYTES_MAX >> 20} MiB")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise NoKubeletMetrics(f"{self._url}: {str(error)[:200] or type(error).__name__}") from None
        if answer.status_code != httpx.codes.OK:
            why = " ".join(bytes(body[:200]).decode(errors="replace").split())
            raise NoKubeletMetrics(f"{self._url} answers {answer.status_code}: {why}")
        return self._rates.take(body.decode(errors="replace"))
