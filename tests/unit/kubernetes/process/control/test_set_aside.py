"""A workload at which the engine fails has a reason on its pod until it is tried again, and all others go on."""

from typing import Any

import pytest
from tests.unit.kubernetes.deliveries import deliver
from tests.unit.kubernetes.small_world import KINDS, job, node, pod, project

from weir.control.fault_isolation import RETRY_AFTER_S
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.process.control import overcommit_relief
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.requests import DeviceResources
from weir.kubernetes.writes.operations import Bind, PatchStatus, WriteDone
from weir.model.policy import Policy
from weir.state.cluster import Cluster

FAULTY = "team/job-faulty"
SENTENCE = (
    "it was set aside: the scheduler failed on this workload (KeyError: (4, 0)) and will try it again later"
)


class Site:
    """A node with eight GPUs and two Jobs of one pod. The engine fails at one of them while `fails` is True."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.fails = 1000.0, True
        self.writes: list[Any] = []
        self.backend = KubernetesBackend(
            ClusterState(KINDS, DeviceResources()), self.writes.extend, lambda: None, lambda: self.now_s
        )
        monkeypatch.setattr(overcommit_relief, "decide", self._decide)
        self.hooks = ClusterControlHooks(self.backend, Policy(), lambda: self.now_s)
        self.hooks.submit = self.writes.extend
        self.control = self.hooks.connect()
        deliver(self.backend, "nodes", node("n1", gpus=8))
        deliver(self.backend, "projects", project("team"))
        for name in ("faulty", "good"):
            deliver(self.backend, "owners", job(name, f"uid-{name}"))
            deliver(self.backend, "pods", pod(f"{name}-0", owner=(name, f"uid-{name}"), gpus=2))

    def _decide(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        met = {name for of in cluster.waiting.values() for _, name, _ in of.members}
        if self.fails and FAULTY in met:
            raise KeyError((4, 0))
        return decide(cluster, policy, now_s, cache)

    def step(self, after_s: float = 0.1) -> list[Any]:
        """Return the writes of a step and of the texts for people after it."""
        self.now_s += after_s
        self.writes.clear()
        self.control.step()
        for _ in range(2):  # a reason is written once it has lasted for a moment
            self.hooks.on_idle(self.control, self.now_s)
            self.now_s += 1.0
        for each in self.writes:
            if isinstance(each, Bind):
                self.backend.take_outcome(each, WriteDone())
        return list(self.writes)


def test_the_pod_of_a_workload_that_is_set_aside_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    writes = site.step()
    assert [each.name for each in writes if isinstance(each, Bind)] == ["good-0"]
    assert (site.backend.reasons[FAULTY].why, site.backend.reasons[FAULTY].sentence) == (
        "suspended",
        SENTENCE,
    )
    conditions = [
        str(each.patch) for each in writes if isinstance(each, PatchStatus) and "faulty-0" in each.path
    ]
    assert any("KeyError" in each for each in conditions), writes


def test_it_starts_once_its_fault_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    site.step()
    site.fails = False
    assert not any(isinstance(each, Bind) for each in site.step())
    writes = site.step(RETRY_AFTER_S)
    assert [each.name for each in writes if isinstance(each, Bind)] == ["faulty-0"]
    assert FAULTY not in site.backend.reasons
