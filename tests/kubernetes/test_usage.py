"""Use of GPUs on the real API server: shown, acted on, and named while it is unknown."""

import json
import re
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.kubernetes.dashboard_site import WITHIN_S, DashboardProcess, SignedIn
from tests.kubernetes.test_cli import Run, run
from tests.kubernetes.test_project_numbers import Scraper
from tests.kubernetes.test_scheduler_config import CONFIGS, config
from tests.unit.kubernetes.usage.prometheus_servers import answer, reply, serving
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.queries import wait_for_queries, withdraw
from tools.controlplane.weir import project
from tools.controlplane.work import job

ROOT = "/apis/query.weir.dev/v1"
__all__ = ["run"]  # a fixture
LIFE = {"idle_window": "5s", "idle_limit": {"train": "30s"}}


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, namespace=cluster.namespace(), name="measured", webhooks=False) as running:
        wait_for_queries(cluster.api)
        try:
            yield running
        finally:
            withdraw(cluster.api)
        assert "forbidden" not in running.log_text().lower()


class Exporters:
    """A Prometheus server that knows the pods of the cluster; those named idle do nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._at_s = 0.0
        self.is_broken = False

    def __call__(self, request: BaseHTTPRequestHandler, query: str) -> None:
        if self.is_broken:
            reply(request, b"<html>", 502)
            return
        self._at_s += 1.0
        reply(request, answer(*(each for pod in self._pods() for each in self._series(query, *pod))))

    def _pods(self) -> list[tuple[str, str]]:
        metas = [each["metadata"] for each in self._cluster.api.items("/api/v1/pods")]
        return [(each["namespace"], each["name"]) for each in metas]

    def _series(self, query: str, namespace: str, name: str) -> Iterator[dict[str, Any]]:
        labels = {"namespace": namespace, "pod": name}
        busy = 0.0 if name.startswith("idle") else 0.9
        found = re.search(r"ENGINE_ACTIVE|FB_USED|cpu_usage|network_receive", query)
        value = {"ENGINE_ACTIVE": busy, "FB_USED": 1024.0, "cpu_usage": busy, "network_receive": busy}
        if found is not None:
            labels |= {"UUID": f"GPU-{namespace}-{name}", "gpu": "0"}
            yield {"metric": labels, "values": [[self._at_s, str(value[found[0]])]]}


CLIMBS = {
    "idle_window": "5s",
    "idle_notice": {"train": "12s"},
    "idle_suspend": {"train": "60s"},
    "idle_warning": {"train": "15s"},
}
JOBS = "/apis/batch/v1/namespaces"


def idle_job(cluster: Cluster, within: str) -> dict[str, Any]:
    return dict(cluster.api.get(f"{JOBS}/{within}/jobs/idle"))


def idle_events(cluster: Cluster, within: str) -> dict[str, int]:
    """Return the number of Events of the idle rules by reason."""
    events = cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{within}/events")
    reasons = [each["reason"] for each in events]
    words = ("Idle", "Protection", "Suspension")
    return {each: reasons.count(each) for each in reasons if each.startswith(words)}


def test_idle_job_climbs_the_ladder_through_a_kill_is_suspended_and_resumed_and_gives_way(
    weir: Installed, cluster: Cluster, run: Run
) -> None:
    cluster.add_nodes(1, gpus=1)
    within, guests = cluster.namespace(), cluster.namespace()
    cluster.api.create(project(within, 1, [within]), project(guests, 0, [guests]), job(within, "idle", 1))
    cluster.until(lambda: len(cluster.running(within)) == 1, "it to run")
    with serving(Exporters(cluster)) as url:
        source = {"url": url, "interval": "10s"}
        cluster.api.create(config(policy={"life": CLIMBS}, usage={"prometheus": source}))
        cluster.until(lambda: "IdleWarning" in idle_events(cluster, within), "the first notice")
        path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/job-idle"

        def life() -> dict[str, Any]:
            return dict((cluster.api.get(path).get("status") or {}).get("life", {}).get("idle") or {})

        cluster.until(lambda: life().get("notices"), "the notice to be stored")
        described = " ".join(run("describe", "idle")[1].split())
        assert "is suspended in" in described
        assert "If idle notice after 12s, suspended after 1m" in described
        weir.kill()
        weir.start()
        wait_for_queries(cluster.api)
        cluster.until(lambda: idle_job(cluster, within)["spec"].get("suspend"), "the suspension")
        cluster.until(lambda: not cluster.running(within), "its pods to be gone")
        expected = {"IdleWarning": 2, "IdleSuspended": 1}
        cluster.until(lambda: idle_events(cluster, within) == expected, "two notices and a suspension")
        cluster.until(lambda: "it was idle for" in run("why", "idle")[1], "the reason")

        config_path = f"{CONFIGS}/weir"
        yields = {"idle_window": "5s", "idle_unprotect": {"train": "20s"}}
        changed = {"spec": {"policy": {"life": {**dict.fromkeys(CLIMBS), **yields}}}}
        cluster.api.patch(config_path, changed)
        assert run("resume", "idle")[0] == 0
        cluster.until(lambda: len(cluster.running(within)) == 1, "it to run again")
        cluster.api.create(job(guests, "other", 1))
        cluster.until(lambda: len(cluster.running(guests)) == 1, "the other to get the idle GPUs")
        cluster.until(lambda: idle_job(cluster, within)["spec"].get("suspend"), "the suspension")
        cluster.until(lambda: "ProtectionLost" in idle_events(cluster, within), "the event")
        assert not cluster.running(within)
        cluster.until(lambda: "went to" in run("why", "idle")[1], "the reason to name the other")
        cluster.until(lambda: idle_events(cluster, within).get("IdleSuspended") == 2, "its second suspension")


def condition(cluster: Cluster) -> str:
    stated = (cluster.api.get(f"{CONFIGS}/weir").get("status") or {}).get("conditions") or []
    return next(
        (f"{each['status']}: {each['message']}" for each in stated if each["type"] == "UsageRead"), ""
    )


class LiveList:
    """The activity and the reason of each workload in the list of an open dashboard."""

    def __init__(self, frames: Iterator[dict[str, Any]]) -> None:
        self._frames = frames
        self._columns: list[str] = []
        self._rows: dict[str, tuple[str, str]] = {}

    def wait_for(self, wanted: dict[str, tuple[str, str]]) -> None:
        """Read frames until the list shows these."""
        end_s = time.monotonic() + WITHIN_S
        while self._rows != wanted:
            assert time.monotonic() < end_s, self._rows
            frame = next(self._frames)
            self._columns = frame.get("columns", self._columns)
            for values in frame.get("rows", ()):
                row = dict(zip(self._columns, values, strict=True))
                self._rows[row["name"]] = row["activity"], row["why"]


def test_idle_work_is_shown_warned_and_stopped_and_a_broken_server_is_named(
    weir: Installed, cluster: Cluster, plane: ControlPlane, run: Run
) -> None:
    exporters = Exporters(cluster)
    cluster.add_nodes(1, gpus=4)
    within = cluster.namespace()
    cluster.api.create(project(within, 4, [within]), job(within, "works", 1), job(within, "idle", 1))
    cluster.until(lambda: len(cluster.running(within)) == 2, "both to run")
    with serving(exporters) as url:
        source = {"url": url, "interval": "10s"}
        window = {"idle_window": LIFE["idle_window"]}
        cluster.api.create(config(policy={"life": window}, usage={"prometheus": source}))

        def uses() -> dict[str, float | None]:
            (node,) = cluster.api.get(f"{ROOT}/nodes")["items"]
            return {each["workloads"][0]: each["use"] for each in node["devices"] if each["workloads"]}

        wanted = {f"{within}/job-works": 0.9, f"{within}/job-idle": 0.0}
        cluster.until(lambda: uses() == wanted, "the use of both")
        cluster.until(lambda: condition(cluster).startswith("True"), "the condition")
        workloads = f"{ROOT}/namespaces/{within}/workloads"

        def state(name: str) -> str:
            found = cluster.api.maybe(f"{workloads}/job-{name}") or {}
            return str((found.get("activity") or {}).get("state"))

        cluster.until(lambda: state("idle") == "parked", "the idle one to be parked")
        cluster.until(lambda: state("works") == "working", "the other one to work")
        _, shown, _ = run("top")
        (idle,), (works,) = (
            [line for line in shown.splitlines() if name in line] for name in ("-idle", "-works")
        )
        assert "parked" in idle, shown
        assert "0 %" in idle, shown
        assert "90 %" in works, shown
        assert "1Gi of" in works, shown
        assert "parked for" in run("list")[1]
        curves = cluster.api.get(f"{workloads}/job-works/series")
        measured = {each["name"]: each["points"][-1][1] for each in curves["series"]}
        assert measured["gpu"] == pytest.approx(0.9)
        assert measured["gpu_memory"] == 1 << 30
        assert all(each["kind"] == "measured" for each in curves["series"])
        assert "nothing moves" in run("describe", "idle")[1]
        idle_name, works_name = f"{within}/job-idle", f"{within}/job-works"
        with (
            DashboardProcess(plane.kubeconfig) as served,
            SignedIn(served) as person,
            person.stream(heartbeats=True) as frames,
        ):
            live = LiveList(frames)
            live.wait_for({idle_name: ("parked", ""), works_name: ("working", "")})
            cluster.api.patch(f"{CONFIGS}/weir", {"spec": {"policy": {"life": LIFE}}})
            live.wait_for({idle_name: ("parked", "idle"), works_name: ("working", "")})
        code, said, _ = run("extend", "works", "1h")
        assert (code, f"{within}/job-works alone until" in said) == (0, True), said
        annotated = cluster.api.get(f"/apis/batch/v1/namespaces/{within}/jobs/works")["metadata"][
            "annotations"
        ]
        assert "weir.dev/idle-extended-until" in annotated
        assert run("extend", "works", "soon")[0] == 2

        def extended_s() -> float:
            return float(cluster.api.get(f"{workloads}/job-works")["activity"]["extended_until_s"] or 0.0)

        cluster.until(lambda: extended_s() > time.time() + 3000, "the extension to be shown")

        def workload() -> dict[str, Any]:
            return dict(cluster.api.get(f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/job-idle"))

        cluster.until(lambda: workload()["status"]["phase"] == "Stopped", "it to be stopped")
        assert workload()["status"]["reason"]["why"] == "idle", json.dumps(workload()["status"])

        def notes() -> list[str]:
            events = cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{within}/events")
            return [each["note"] for each in events if each["reason"] == "IdleWarning"]

        cluster.until(lambda: len(notes()) == 2, lambda: f"two notices: {notes()}")
        assert all("job-idle" in each and "is stopped in" in each for each in notes())
        assert state("works") == "working"
        report = cluster.api.get(f"{ROOT}/reports/usage")
        assert any(row["used_gpu_s"] and row["idle_gpu_s"] for row in report["rows"]), report

        scraper = Scraper(weir, cluster)
        assert scraper.scrape()["weir_usage_known", ()] == 1
        exporters.is_broken = True
        cluster.until(lambda: "502" in condition(cluster), "the condition to name the server")
        assert scraper.scrape()["weir_usage_known", ()] == 0
        assert uses()[f"{within}/job-works"] is None
    assert len(list(weir.lines("usage_not_read"))) >= 1
