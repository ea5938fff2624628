"""Two nodes of borrowed work under PodDisruptionBudgets, and an owner that claims one of them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from tests.unit.kubernetes.deliveries import deliver

from weir.control.loop import Control
from weir.kubernetes.api.budget_objects import PodDisruptionBudget
from weir.kubernetes.api.objects import KubePod, ObjectCondition
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.writes.operations import Evict, WriteRefused
from weir.model.policy import BudgetPolicy, Policy

from .small_world import KINDS, job, node, pod, project

REFUSED = WriteRefused(429, "Cannot evict pod as it would violate the pod's disruption budget.")
BEGAN_S = 1767225600.0
EVERYONE: dict[str, Any] = {}
NOT_A = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}


def budget(
    name: str = "b",
    allowed: int = 0,
    *,
    namespace: str = "ta",
    selector: dict[str, Any] | None = None,
    generation: int = 1,
    observed: int = 1,
    policy: str = "",
    disrupted: Sequence[str] = (),
    healthy: tuple[int, int, int] = (1, 1, 1),
    **spec: Any,
) -> PodDisruptionBudget:
    """Return a budget as the API has it; `healthy`: pods that are, ought to be, and there are."""
    current, desired, expected = healthy
    written = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"b-{name}", "generation": generation},
        "spec": {
            "selector": selector,
            **({"unhealthyPodEvictionPolicy": policy} if policy else {}),
            **(spec or {"maxUnavailable": 1}),
        },
        "status": {
            "observedGeneration": observed,
            "disruptionsAllowed": allowed,
            "currentHealthy": current,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    }
    return msgspec.convert(written, PodDisruptionBudget)


class Site:
    """Two nodes that Jobs of ta hold, which has no quota, and a Job of tb that is owed one of them."""

    def __init__(self, rules: BudgetPolicy | None = None) -> None:
        self.now_s = BEGAN_S
        self.writes: list[Any] = []
        policy = Policy(budgets=rules or BudgetPolicy())
        self.cluster_state = ClusterState(KINDS, DeviceResources())
        self.cluster_state.budgets.set_rules(policy.budgets)
        self.backend = KubernetesBackend(
            self.cluster_state, self.writes.extend, lambda: None, lambda: self.now_s
        )
        self.backend.connect()
        self.control = Control(self.backend, policy, lambda: self.now_s)
        self.hear("nodes", node("n1"), node("n2"))
        self.hear("projects", project("ta", gpus=0), project("tb", gpus=4))

    def hear(self, resource: str, *objects: Any) -> None:
        deliver(self.backend, resource, *objects)

    def runs(
        self, name: str, on: str, *, ready: bool = True, phase: str = "Running", **labels: str
    ) -> KubePod:
        """A Job of ta with one pod that holds a whole node."""
        self.hear("owners", job(name, f"j-{name}", namespace="ta"))
        found = pod(
            f"{name}-0",
            owner=(name, f"j-{name}"),
            namespace="ta",
            gpus=4,
            on=on,
            start=1,
            devices="0,1,2,3",
            phase=phase,
            labels={"app": name, **labels},
        )
        found.status.conditions = [ObjectCondition("Ready", "True" if ready else "False")]
        self.hear("pods", found)
        return found

    def asks(self) -> None:
        """The owner's Job comes."""
        self.hear("owners", job("back", "j-back", namespace="tb"))
        self.hear("pods", pod("back-0", owner=("back", "j-back"), namespace="tb", gpus=4))

    def step(self, after_s: float = 0.1) -> list[Evict]:
        """Return what is evicted in this step."""
        self.now_s += after_s
        self.writes.clear()
        self.control.step()
        return [each for each in self.writes if isinstance(each, Evict)]

    def allowed(self) -> dict[str, int]:
        """Return what control takes budgets to allow."""
        return {name: each.allowed for name, each in self.control.cluster.budgets.items()}

    def protected(self, name: str) -> tuple[str, ...]:
        """Return the budgets of a Job's pod, as control knows them."""
        return tuple(each.name for each in self.control.cluster.jobs[f"ta/job-{name}"].pods[0][0].budgets)
