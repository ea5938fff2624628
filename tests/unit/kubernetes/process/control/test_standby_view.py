"""The view of a replica that doesn't lead: the same numbers, and not a single write."""

from collections.abc import Callable

import pytest
from tests.unit.kubernetes.small_world import KINDS, node, pod, project

from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.process.control.standby_view import StandbyHooks
from weir.kubernetes.query.cluster.numbers import pool_status
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.policy import Policy
from weir.service.queue_position import queue_position

NOW_S = 1769860800.0


def backend(written: list[object], clock: Callable[[], float]) -> KubernetesBackend:
    state = ClusterState(KINDS, DeviceResources())
    return KubernetesBackend(state, written.extend, lambda: None, clock)


def tell(here: KubernetesBackend, *pods: KubePod) -> None:
    runs = pod("runs", on="n", start=1, devices="0", phase="Running")
    for resource, things in (
        ("nodes", [node("n", 2)]),
        ("projects", [project("team", gpus=2)]),
        ("pods", pods or [runs, pod("waits"), pod("too")]),
    ):
        here.deliver(resource)([ObjectSet(_key(each), each) for each in things])


def _key(thing: object) -> str:
    metadata = thing.metadata  # type: ignore[attr-defined] # of any kind
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


def test_a_standby_counts_what_a_leader_would_and_writes_nothing() -> None:
    written: list[object] = []
    kept: list[ClusterSummary] = []
    here = backend(written, lambda: NOW_S)
    hooks = StandbyHooks(here, Policy, lambda: NOW_S, kept.append)
    tell(here)
    control = hooks.connect()
    hooks.before_step(NOW_S)
    control.step()
    hooks.on_idle(control, NOW_S)
    uses = {"n": here.cluster_state.node_states.device_use("n")}
    status = pool_status(control.cluster, uses, Policy(), version="1", started_s=0.0)
    assert (status.devices, status.allocated, status.running, status.pending) == (2, 1.0, 1, 2)
    assert queue_position(control.cluster, "team/pod-waits")[1] == 2
    assert (kept[-1].queues["team"].running, kept[-1].queues["team"].pending) == (1, 2)
    assert written == []
    control.step()
    assert written == []


def test_a_standby_that_takes_over_decides_from_the_whole_state() -> None:
    written: list[object] = []
    here = backend(written, lambda: NOW_S)
    standby = StandbyHooks(here, Policy, lambda: NOW_S, lambda _: None)
    tell(here)
    standby.connect().step()
    here.leave()
    hooks = ClusterControlHooks(here, Policy(), lambda: NOW_S)
    control = hooks.connect()
    hooks.before_step(NOW_S)
    control.step()
    hooks.after_step(control, NOW_S)
    assert len(control.cluster.jobs) == 3
    assert sum(type(each).__name__ == "Bind" for each in written) == 1, "one of two finds a free device"


@pytest.mark.parametrize("leads", [False, True])
def test_a_standby_leaves_limits_of_time_to_the_leader(leads: bool) -> None:
    """A pod over its limit is stopped by the leader alone."""
    limited = pod("runs", on="n", start=1, devices="0", phase="Running")
    limited.metadata.annotations["weir.dev/max-runtime"] = "1s"
    written: list[object] = []
    now = [NOW_S]
    here = backend(written, lambda: now[0])
    tell(here, limited)
    if leads:
        control = ClusterControlHooks(here, Policy(), lambda: now[0]).connect()
    else:
        control = StandbyHooks(here, Policy, lambda: now[0], lambda _: None).connect()
    control.step()
    now[0] += 3600.0
    control.step()
    assert any(type(each).__name__ == "Evict" for each in written) is leads
