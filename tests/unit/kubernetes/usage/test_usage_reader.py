"""The reader over a cluster: what reaches control, what a bad server changes, and a real Prometheus server."""

import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.kubernetes.small_world import KINDS, job, node, pod, project
from tests.unit.kubernetes.usage.prometheus_servers import MISSING, PROGRAM, real_prometheus, until

from weir.control.port import ActivitySampled
from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.usage_settings import UsageSettings
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.usage.cluster_use import ClusterUse, DeviceSighting
from weir.kubernetes.usage.node_reports import NodeReport, NodeReports, PodReport
from weir.kubernetes.usage.pod_metrics import DeviceMetrics, read_pods
from weir.kubernetes.usage.prometheus_api import PrometheusApi
from weir.kubernetes.usage.series import PrometheusFailed, Series
from weir.kubernetes.usage.usage_reader import (
    NO_DEVICES,
    NO_REPORTS,
    PAUSE_S_MAX,
    STALE_AFTER_S,
    STUCK,
    UsageReader,
)
from weir.kubernetes.writes.operations import Evict
from weir.model.activity import Activity
from weir.model.policy import LifecyclePolicy, Policy

SETTINGS = UsageSettings("http://prometheus")
NOW_S = 1769860800.0
EVERY_S = 30.0


class FakePrometheus:
    """A server with one GPU of the pod team/runs, whose use and processor time the test sets."""

    def __init__(self) -> None:
        self.use, self.cores, self.network = 0.0, 0.0, 0.0
        self.at_s = 0.0
        self.fails = ""
        self.stands_still = False
        self.queries = 0

    def __call__(self, url: str) -> Any:
        return self

    def close(self) -> None:
        pass

    def query(self, expression: str) -> list[Series]:
        self.queries += 1
        if self.fails:
            raise PrometheusFailed(self.fails)
        labels = {"namespace": "team", "pod": "runs"}
        if "container_cpu" in expression:
            return [Series(labels, [(self.at_s, self.cores)])]
        if "container_network" in expression:
            return [Series(labels, [(self.at_s, self.network)])]
        if "container_fs" in expression or "FB_USED" in expression:
            return []
        scale = 100.0 if "GPU_UTIL" in expression else 1.0
        return [Series({**labels, "UUID": "GPU-1", "gpu": "0"}, [(self.at_s, self.use * scale)])]


class Rig:
    """A leader with one workload that runs, and a reader."""

    def __init__(self, life: LifecyclePolicy, kind: str = "train") -> None:
        self.now_s = NOW_S
        self.written: list[Any] = []
        state = ClusterState(KINDS, DeviceResources())
        self.backend = KubernetesBackend(state, self.written.extend, lambda: None, lambda: self.now_s)
        self.hooks = ClusterControlHooks(self.backend, Policy(life=life), lambda: self.now_s)
        self.notes: list[str] = []
        self.backend.statuses.say = lambda _gang, _reason, note, _action: self.notes.append(note)  # type: ignore[method-assign]
        self.use = ClusterUse()
        self.prometheus = FakePrometheus()
        self.reader = UsageReader(
            self.backend,
            lambda: SETTINGS,
            lambda: life,
            lambda: self.now_s,
            self._taken,
            self.prometheus,
        )
        self.backend.deliver("nodes")([ObjectSet("n", node("n", 2))])
        self.backend.deliver("projects")([ObjectSet("team", project("team", gpus=2))])
        owner = job("runs", "o")
        self.backend.deliver_owners()([ObjectSet("runs", owner)])
        made = pod("runs", owner=("runs", "o"), on="n", start=1, devices="0", phase="Running")
        made.metadata.labels["weir.dev/type"] = kind
        self.backend.deliver("pods")([ObjectSet("team/runs", made)])
        self.control = self.hooks.connect()
        self.step()

    def _taken(self, use: ClusterUse) -> None:
        self.use = use
        self.backend.tell(
            ActivitySampled(name, each.activity.state, use.at_s, each.activity.quiet_s)
            for name, each in use.workloads.items()
        )

    def step(self) -> None:
        self.hooks.before_step(self.now_s)
        self.control.step()
        self.hooks.after_step(self.control, self.now_s)
        self.hooks.on_idle(self.control, self.now_s)

    def passes(self, seconds: float) -> None:
        """Look and step for this time."""
        for _ in range(int(seconds / EVERY_S)):
            self.now_s += EVERY_S
            if not self.prometheus.stands_still:
                self.prometheus.at_s += EVERY_S
            self.reader.look(SETTINGS)
            self.step()

    def evictions(self) -> list[Evict]:
        return [each for each in self.written if isinstance(each, Evict)]

    def state(self) -> Activity | None:
        (found,) = self.use.workloads.values()
        return found.activity.state


LIMITED = LifecyclePolicy(idle_limit={"train": "1h", "build": "1h"}, idle_warning={"train": "10m"})


def test_an_idle_workload_gets_two_notices_and_is_stopped_and_one_that_works_is_not() -> None:
    idle, works = Rig(LIMITED), Rig(LIMITED)
    works.prometheus.use = 0.8
    idle.passes(3300.0)
    assert idle.state() is Activity.PARKED
    assert idle.evictions() == []
    idle.passes(1200.0)
    works.passes(4500.0)
    assert len(idle.evictions()) == 1
    assert len(idle.notes) == 2, idle.notes
    assert all(
        "is stopped in" in each and "`weir extend team/job-runs 2h` keeps it" in each for each in idle.notes
    )
    assert (works.evictions(), works.notes) == ([], [])


def test_reports_of_nodes_count_where_no_server_is_named() -> None:
    rig, reports, unnamed = Rig(LIMITED), NodeReports(lambda: NOW_S), UsageSettings()
    reader = UsageReader(
        rig.backend,
        lambda: unnamed,
        lambda: LIMITED,
        lambda: rig.now_s,
        rig._taken,
        rig.prometheus,
        node_reports=reports,
    )
    assert not reader.has_source(unnamed)

    def report(node: str, use: float | None) -> DeviceSighting:
        device = DeviceMetrics(0, "GPU-1", use, use, 1 << 30)
        reports.take(node, NodeReport([PodReport("team", "runs", [device])]))
        reader.look(unnamed)
        return rig.use.devices["n", 0]

    assert report("other", 0.7).use is None, "a node speaks for its own pods alone"
    assert reader.trouble == NO_REPORTS
    assert reader.has_source(unnamed)
    shown = report("n", 0.7)
    assert (shown.use, shown.memory_used) == (0.7, 1 << 30)
    assert (reader.trouble, rig.prometheus.queries) == (None, 0)
    assert report("n", None).use is None
    for _ in range(200):
        rig.now_s += EVERY_S
        assert report("n", 0.0).use == 0.0
    assert rig.state() is Activity.UNKNOWN, "its processors and its network aren't measured"
    assert rig.evictions() == []
    device = DeviceMetrics(0, "GPU-1", 0.0, 0.0, 1 << 30)
    quiet = PodReport("team", "runs", [device], cores=0.0, network=0.0)
    for _ in range(200):
        rig.now_s += EVERY_S
        reports.take("n", NodeReport([quiet]))
        reader.look(unnamed)
        rig.step()
    assert rig.state() is Activity.PARKED
    assert len(rig.evictions()) == 1, "the idle rules work without a server"
    assert reader.has_source(SETTINGS)
    reader.look(SETTINGS)
    assert rig.prometheus.queries, "a server that is named counts alone"


@pytest.mark.parametrize("how", ["away", "stuck", "no processors", "starved", "build"])
def test_what_is_not_certain_stops_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(LIMITED, kind="build" if how == "build" else "train")
    times = iter(range(0, 10**9, int(EVERY_S)))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(times)))
    rig.prometheus.fails = "it is away" if how == "away" else ""
    rig.prometheus.stands_still = how == "stuck"
    rig.prometheus.cores = {"no processors": float("nan"), "starved": 1.0}.get(how, 0.0)
    if how == "no processors":
        asked = rig.prometheus.query
        monkeypatch.setattr(
            rig.prometheus, "query", lambda text: [] if "container_cpu" in text else asked(text)
        )
    rig.passes(3 * 3600.0)
    assert (rig.evictions(), rig.notes) == ([], [])
    assert rig.state() in (Activity.UNKNOWN, Activity.STARVED)
    if how == "away":
        assert rig.reader.trouble == "it is away"
    if how == "stuck":
        assert rig.reader.trouble == STUCK


def test_a_server_that_comes_back_is_believed_again_and_pauses_grow_until_then() -> None:
    rig = Rig(LIMITED)
    rig.prometheus.fails = "it is away"
    pauses = []
    for _ in range(12):
        rig.passes(EVERY_S)
        pauses.append(rig.reader.pause_s(SETTINGS))
    assert pauses[:3] == [60.0, 120.0, 240.0]
    assert pauses[-1] == PAUSE_S_MAX
    assert rig.use.devices["n", 0].use is None
    rig.prometheus.fails, rig.prometheus.use = "", 0.5
    rig.passes(EVERY_S)
    assert (rig.reader.trouble, rig.reader.pause_s(SETTINGS)) == (None, 30.0)
    assert rig.use.devices["n", 0].use == 0.5


def test_a_server_without_gpus_is_named_only_while_pods_hold_some(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(LIMITED)
    monkeypatch.setattr(rig.prometheus, "query", lambda _: [])
    rig.passes(EVERY_S)
    assert rig.reader.trouble == NO_DEVICES
    rig.backend.deliver("pods")([ObjectSet("team/runs", pod("runs", owner=("runs", "o"), phase="Succeeded"))])
    rig.step()
    rig.passes(EVERY_S)
    assert rig.reader.trouble is None
    assert STALE_AFTER_S > 2 * EVERY_S


def test_a_workload_that_was_idle_and_works_again_begins_from_the_ground() -> None:
    rig = Rig(LIMITED)
    rig.passes(3000.0)
    rig.prometheus.use = 0.9
    rig.passes(300.0)
    rig.prometheus.use = 0.0
    rig.passes(3000.0)
    assert rig.evictions() == []
    assert rig.state() is Activity.PARKED


def test_an_extension_of_its_job_keeps_a_workload_and_ends() -> None:
    rig = Rig(LIMITED)
    rig.passes(300.0)
    owner = job("runs", "o", idle_extended_until="2026-01-31T15:00:00Z")
    rig.backend.deliver_owners()([ObjectSet("runs", owner)])
    rig.passes(10200.0)
    assert (rig.evictions(), rig.notes) == ([], [])
    rig.passes(5400.0)
    assert len(rig.evictions()) == 1
    assert len(rig.notes) == 2


@pytest.fixture
def metrics() -> dict[str, float]:
    return {"use": 0.75, "began_s": time.monotonic()}


@pytest.mark.skipif(PROGRAM is None, reason=MISSING)
def test_numbers_of_a_real_prometheus_server(tmp_path: Path, metrics: dict[str, float]) -> None:
    rig = Rig(LIMITED)

    def text(path: str) -> str:
        seconds = time.monotonic() - metrics["began_s"]
        gpu = 'gpu="3",UUID="GPU-a",Hostname="n",modelName="NVIDIA H200",container="main",namespace="team",pod="runs"'
        other = 'gpu="4",UUID="GPU-b",Hostname="n",modelName="NVIDIA H200"'
        kubelet = 'namespace="team",pod="runs",container="main"'
        gpus = [
            f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu}}} {metrics['use']}",
            f"DCGM_FI_DEV_GPU_UTIL{{{gpu}}} {100 * metrics['use']:.0f}",
            f"DCGM_FI_DEV_FB_USED{{{gpu}}} 2048",
            f"DCGM_FI_DEV_GPU_UTIL{{{other}}} 99",
        ]
        kubelets = [
            f"container_cpu_usage_seconds_total{{{kubelet}}} {0.5 * seconds}",
            f"container_fs_reads_bytes_total{{{kubelet}}} {1000 * seconds}",
            f"container_fs_writes_bytes_total{{{kubelet}}} 0",
            f'container_network_receive_bytes_total{{namespace="team",pod="runs",interface="eth0"}} {2000 * seconds}',
            'container_network_transmit_bytes_total{namespace="team",pod="runs",interface="eth0"} 0',
        ]
        return "\n".join(gpus if path == "/gpu" else kubelets) + "\n"

    with real_prometheus(tmp_path, text) as url:
        settings = UsageSettings(url)
        reader = UsageReader(
            rig.backend,
            lambda: settings,
            LifecyclePolicy,
            time.time,
            rig._taken,
            PrometheusApi,
        )

        def known() -> bool:
            reader.look(settings)
            return reader.trouble is None and rig.use.devices["n", 0].use is not None

        until(known, "use of the device")
        assert rig.use.devices["n", 0].use == pytest.approx(0.75)
        assert rig.use.devices["n", 0].memory_used == 2048 << 20
        assert set(rig.use.devices) == {("n", 0)}
        assert rig.state() is Activity.WORKING

        api = PrometheusApi(url)
        found = until(lambda: _rates_of_one_moment(api), "rates of processors, disks and network")
        assert 0 < found.cores < 0.75, "a rate over a range is too low while a series is young"
        with pytest.raises(PrometheusFailed, match=r"answers 400: .*parse error"):
            api.query("this is no expression")
        api.close()


def _rates_of_one_moment(api: PrometheusApi) -> Any:
    """Return all rates if no scrape came between their queries: the rates of a young series grow with each."""
    found = read_pods(api, SETTINGS, {("team", "runs")}).pods["team", "runs"]
    if None in (found.cores, found.disk, found.network):
        return None
    parts = found.disk / found.cores, found.network / found.cores
    return found if parts == pytest.approx((2000, 4000), rel=0.01) else None
