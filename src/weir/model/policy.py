"""The scheduler's configuration: every setting the engine and the control loop read, and the presets.

All of it is plain data. The defaults of the classes are the default preset. `PRESETS` holds the settings in
which another preset differs. The settings of a file overrule its preset.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from weir.model.resources import seconds
from weir.model.workloads import WorkloadType

Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


DEFAULT_PRESET: Final = "balanced"
PRESETS: dict[str, dict[str, Any]] = {
    "balanced": {},  # the defaults of the classes below
    "throughput": {
        "share_weight": 0.3,
        "swap_min_gain": 1.5,
        "reclaim_share_after": "7d",
        "consolidation": {"budget": 2250},
        "price": {"size_credit": 2000},
    },
    "fair": {
        "over_quota_order": "fair",
        "victim_policy": "fair",
        "reclaim_share_after": 0,
        "reserve_fraction": 0,
        "swap_at_checkpoint": False,
        "oldest_first_in_quota": False,
        "consolidation": {"budget": 30_000, "protect_in_quota": False},
        "price": {"size_credit": 10_000},
        "topology": {"patience": 0, "budget": 3000},
    },
}
"""Settings of each preset that differ from the default preset."""


class PolicySection(BaseModel):
    """Base of every part of the configuration: fixed once read, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DurationByType(PolicySection):
    """A duration for each workload type."""

    build: Seconds = 0.0
    train: Seconds = 0.0
    inference: Seconds = 0.0

    @property
    def any(self) -> bool:
        """Return True if any of them is set."""
        return bool(self.build or self.train or self.inference)

    def for_type(self, type_: WorkloadType) -> float:
        """Return the duration for workloads of `type_`."""
        return float(getattr(self, type_.value))


class FractionByType(PolicySection):
    """A fraction for each workload type."""

    build: Fraction = 0.0
    train: Fraction = 0.0
    inference: Fraction = 0.0

    def for_type(self, type_: WorkloadType) -> float:
        """Return the fraction for workloads of `type_`."""
        return float(getattr(self, type_.value))


class LifecyclePolicy(PolicySection):
    """Retries, run time limits, idle rules and grace periods of workloads.

    A time of 0 means that there is no such rule. Projects may say otherwise, workloads may ask for less.
    """

    max_failures: Annotated[int, Field(ge=0)] = 3  # consecutive failures without a checkpoint
    pause_first: Seconds = 10.0
    max_pause: Seconds = 600.0
    stop_grace: Seconds = 30.0
    max_stop_grace: Seconds = 600.0
    max_runtime: DurationByType = DurationByType()
    idle_window: Annotated[float, BeforeValidator(seconds), Field(ge=1)] = 300.0  # time without activity
    idle_notice: DurationByType = DurationByType()
    idle_unprotect: DurationByType = DurationByType()
    idle_suspend: DurationByType = DurationByType()
    idle_limit: DurationByType = DurationByType()
    idle_warning: DurationByType = DurationByType(build=900.0, train=900.0, inference=900.0)
    idle_below: FractionByType = FractionByType(build=0.05, train=0.05, inference=0.05)
    max_idle_extend: Seconds = 86400.0  # longest extension, from now
    lifetime: Seconds = 0.0  # of build sessions
    lifetime_warning: Seconds = 900.0

    def pause_s(self, failures: int) -> float:
        """Return the pause after the n-th failure in a row."""
        return float(min(self.max_pause, self.pause_first * 2.0 ** min(failures - 1, 64)))


class UsagePolicy(PolicySection):
    """Effect of past usage on a queue's part of the surplus; `k` = 0 disables it."""

    k: Annotated[float, Field(ge=0)] = 0.0
    half_life: Seconds = 7 * 86400.0
    window: Seconds = 30 * 86400.0


class ConsolidationPolicy(PolicySection):
    """Moves of running pods to free capacity; each costs at most a restart."""

    enabled: bool = True
    max_moves: Annotated[int, Field(ge=0)] = 32
    budget: Annotated[float, Field(ge=0)] = 5000.0  # device seconds that all moves for one workload may cost
    protect_in_quota: bool = True  # work of queues within their quota isn't moved for work over quota


class RepackPolicy(PolicySection):
    """Stopping a pod for pending ones of its project that use the devices better."""

    enabled: bool = False
    gain: Annotated[float, Field(ge=0)] = 0.1  # additional devices in use, for each stopped device
    max_stops: Annotated[int, Field(ge=0)] = 32  # in one cycle


class BudgetPolicy(PolicySection):
    """Protection of over-quota usage by disruption budgets.

    Work whose budget can't allow its eviction may not go over quota. `grace_period`: a budget that came after
    such work had borrowed protects it for `grace`. `respect`: until the work ends. `override`: any budget
    protects borrowed usage until a workload in quota has waited for `grace`.
    """

    borrowed: Literal["grace_period", "respect", "override"] = "grace_period"
    grace: Seconds = 600.0
    retry: Annotated[float, BeforeValidator(seconds), Field(ge=1, le=3600)] = 10.0  # after a refused eviction


class TopologyPolicy(PolicySection):
    """Patience of a gang for one domain, and the cost of clearing one (device seconds a gang)."""

    patience: Seconds = 86400.0
    budget: Annotated[float, Field(ge=0)] = 8000.0


class AffinityPolicy(PolicySection):
    """Nodes that the workloads of some projects, departments or types require or prefer."""

    projects: tuple[str, ...] = ()
    departments: tuple[str, ...] = ()
    types: tuple[WorkloadType, ...] = ()
    node_labels: dict[str, str]
    required: bool = False
    weight: Annotated[int, Field(ge=1, le=100)] = 1

    def __hash__(self) -> int:
        """Hash the rules: they are part of the keys of node rankings."""
        labels = tuple(sorted(self.node_labels.items()))
        return hash((self.projects, self.departments, self.types, labels, self.required, self.weight))


AffinityRules = tuple[AffinityPolicy, ...]
"""Rules of the policy that apply to one workload."""


class NodePool(PolicySection):
    """Nodes with these labels follow a placement policy of their own."""

    name: str
    node_labels: dict[str, str]
    placement: Literal["pack", "spread"]


class PricePolicy(PolicySection):
    """Price of stopping a victim, in device seconds."""

    restart: Annotated[float, Field(ge=0)] = 2000.0  # default of workloads without a stated cost
    size_credit: Annotated[float, Field(ge=0)] = 0.0  # times ln of its devices on one node


class Policy(PolicySection):
    """Everything that can be set."""

    preset: Literal["balanced", "throughput", "fair"] = DEFAULT_PRESET
    placement: Literal["pack", "spread"] = "pack"
    node_pools: tuple[NodePool, ...] = ()
    affinity: tuple[AffinityPolicy, ...] = ()
    over_quota_order: Literal["fair", "predicted_runtime"] = "predicted_runtime"
    # Weight beside the logarithm of the run time in that order
    share_weight: Annotated[float, Field(ge=0)] = 16.0
    victim_policy: Literal["fair", "lowest_cost"] = "lowest_cost"
    reclaim_share_after: Seconds = 2 * 86400.0  # wait of a borrower before it reclaims by share
    reserve_fraction: Fraction = 0.003  # of the devices, kept free of over-quota work
    swap_at_checkpoint: bool = True
    swap_min_gain: Annotated[float, Field(ge=0)] = 0.75  # difference of the learned keys
    oldest_first_in_quota: bool = True
    aging: Annotated[float, Field(ge=0)] = 0.0  # priority gained per hour of waiting
    usage: UsagePolicy = UsagePolicy()
    reserve_after: Seconds = 3600.0
    gang_grace: Seconds = 60.0
    min_runtime: DurationByType = DurationByType()
    consolidation: ConsolidationPolicy = ConsolidationPolicy()
    repack: RepackPolicy = RepackPolicy()
    topology: TopologyPolicy = TopologyPolicy()
    budgets: BudgetPolicy = BudgetPolicy()
    price: PricePolicy = PricePolicy()
    life: LifecyclePolicy = LifecyclePolicy()
    search_steps: Annotated[int, Field(ge=1)] = 512  # bound of every backtracking search

    @model_validator(mode="before")
    @classmethod
    def _over_preset(cls, written: Any) -> Any:
        if not isinstance(written, dict):
            return written
        return _merged(PRESETS.get(str(written.get("preset", DEFAULT_PRESET)), {}), written)


def _merged(preset: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a preset with the written ones over them, key by key in every section."""
    merged = dict(preset)
    for key, value in written.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, PolicySection):
            value = value.model_dump(exclude_unset=True)  # noqa: PLW2901 - the section as it is written
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
