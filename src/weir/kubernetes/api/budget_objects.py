"""Structs of disruption budgets (policy/v1), as the API server sends them."""

from msgspec import field

from weir.kubernetes.api.objects import ApiStruct, LabelSelector, Metadata


class PodDisruptionBudgetSpec(ApiStruct):
    """Pods that a budget protects, and how many of them may be missing: a number or a percentage."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(ApiStruct):
    """Status of a budget. The API server adds pods that it has evicted to `disrupted_pods`."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, object] = field(default_factory=dict)


class PodDisruptionBudget(ApiStruct):
    """A budget of evictions."""

    metadata: Metadata
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
