"""Two replicas of which one has a clock that is an hour ahead: the lease, the times in objects, and run times."""

import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.command_line import Run, answering, listed, runner
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, install_kinds, project
from tools.controlplane.work import job

AHEAD_S = 3600
NEAR_S = 1200.0
"""A time that an object states is as near to that of the API server, on a loaded machine too."""
PROGRAM = f"""
import runpy, sys, time
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + {AHEAD_S}
time.time_ns = lambda: real_ns() + {AHEAD_S} * 10**9
sys.argv[0] = "weir"
runpy.run_module("weir", run_name="__main__", alter_sys=True)
"""
WEIR = "/apis/weir.dev/v1alpha1"
CONFIG = {"apiVersion": "weir.dev/v1alpha1", "kind": "SchedulerConfig", "metadata": {"name": "weir"}}


class AheadWeir(Weir):
    """A replica whose clock is ahead."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", PROGRAM, *super().command()[3:]]


@pytest.fixture
def run(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(plane, monkeypatch, capsys)


def is_near(text: str) -> bool:
    return abs(datetime.fromisoformat(text).timestamp() - time.time()) < NEAR_S


def times_in(body: Any) -> dict[str, str]:
    """Return the times that an object states, by field."""
    found: dict[str, str] = {}
    parts = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, value in parts:
        if isinstance(value, str) and value[:2] == "20" and value.endswith("Z"):
            found[str(key)] = value
        found |= {f"{key}.{inner}": text for inner, text in times_in(value).items()}
    return found


def test_a_replica_an_hour_ahead_leads_and_hands_over_with_the_right_times(
    cluster: Cluster, plane: ControlPlane, weir_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    install_kinds(plane.api)
    cluster.add_nodes(1, gpus=2)
    home, within = cluster.namespace(), cluster.namespace()
    cluster.api.create(project(within, 2, [within]), {**CONFIG, "spec": {}})
    monkeypatch.setattr("tests.kubernetes.command_line.Weir", AheadWeir)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{home}/leases/weir"

    def holder() -> str:
        return str(((cluster.api.maybe(lease) or {}).get("spec") or {}).get("holderIdentity") or "")

    def runs(name: str) -> Callable[[], bool]:
        path = f"{WEIR}/namespaces/{within}/workloads/job-{name}"
        return lambda: ((cluster.api.maybe(path) or {}).get("status") or {}).get("phase") == "Running"

    with answering(cluster, home, "ahead", account=weir_kubeconfig) as ahead:
        first = str(cluster.until(holder, "the one ahead to lead"))
        words = ["--namespace", home]
        with Weir(plane, weir_kubeconfig, name="right", arguments=words) as right:
            cluster.api.create(job(within, "before", 1))
            cluster.until(runs("before"), lambda: ahead.log_text()[-2000:])
            row = listed(run)[f"{within}/job-before"]
            assert 0 <= row["ran_s"] < NEAR_S, row
            wrong = _wrong_times(cluster, within, lease)
            assert not wrong, wrong
            assert holder() == first
            ahead.kill()
            cluster.until(lambda: holder() not in ("", first), "the other one to lead")
            cluster.api.create(job(within, "after", 1))
            cluster.until(runs("after"), lambda: right.log_text()[-2000:])
            wrong = _wrong_times(cluster, within, lease)
            assert not wrong, wrong
            right.check()


def _wrong_times(cluster: Cluster, within: str, lease: str) -> dict[str, dict[str, str]]:
    """Return the times far from the API server's, by object: of Weir's objects, its pods, events, and lease."""
    objects: dict[str, Object] = {"lease": cluster.api.get(lease)}
    for path in (
        f"{WEIR}/namespaces/{within}/workloads",
        f"{WEIR}/schedulerconfigs",
        f"{WEIR}/projects",
        f"/api/v1/namespaces/{within}/pods",
        f"/apis/events.k8s.io/v1/namespaces/{within}/events",
    ):
        objects |= {f"{path}/{one['metadata']['name']}": one for one in cluster.api.items(path)}
    wrong = {
        name: {field: text for field, text in times_in(body).items() if not is_near(text)}
        for name, body in objects.items()
    }
    return {name: fields for name, fields in wrong.items() if fields}
