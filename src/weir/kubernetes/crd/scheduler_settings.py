"""The typed parts of a `SchedulerConfig`: devices and their weights, shared nodes, work without a project."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from weir.engine.overcommit import GRACE_S
from weir.kubernetes.crd.schemas import Namespace
from weir.kubernetes.crd.usage_settings import UsageSettings, WrittenUsage, read_usage
from weir.kubernetes.crd.without_project import IGNORE, WithoutProject, read_rule
from weir.kubernetes.translate.device_list import NAMES_MAX, device_name
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI
from weir.scenario_io.scalars import GpuWeight, Name, Term
from weir.scenario_io.specs import Entry

SHARED_NODES_MAX = 10_000
SESSION_HEADROOM_MAX = 1024
_AS_WRITTEN = ("share_memory", "shared_nodes", "scale_up_over_quota", "session_headroom")
"""Settings that apply exactly as they are written."""


class WrittenDevices(Entry):
    """A resource whose units are devices, and the part of a GPU that each counts as in quotas."""

    resource: Name
    gpu_weight: GpuWeight = WHOLE_MILLI


class ShareMemoryRules(Entry):
    """Treatment of pods that use more memory of a GPU than their share. They are always named."""

    on_excess: Literal["report", "evict"] = "report"
    grace: Term = 120.0


class SharedNodeRules(Entry):
    """Nodes that Weir may set aside for shares by itself."""

    max: Annotated[int, Field(ge=0, le=SHARED_NODES_MAX)] = 0  # 0: only people set nodes aside
    wait: Term = 60.0  # wait of pending shares before a node is set aside
    idle: Term = 600.0  # time without shares before a node is given back


class WrittenWithoutProject(Entry):
    """Treatment of GPU pods in namespaces that no project lists."""

    action: Literal["ignore", "refuse", "queue"] = "ignore"
    project: Name | None = None
    namespace_labels: Annotated[dict[Name, str], Field(max_length=16)] = Field(default={})
    exempt_namespaces: Annotated[list[Namespace], Field(max_length=1024)] = Field(default=[])


class WrittenSettings(Entry):
    """Fields of a `SchedulerConfig` besides its policy and its kinds."""

    device_resources: Annotated[list[WrittenDevices], Field(max_length=NAMES_MAX)] | None = None
    overcommit_grace: Term | None = None
    share_memory: ShareMemoryRules | None = None
    shared_nodes: SharedNodeRules | None = None
    without_project: WrittenWithoutProject | None = None
    scale_up_over_quota: bool | None = None
    usage: WrittenUsage | None = None
    session_headroom: Annotated[int, Field(ge=0, le=SESSION_HEADROOM_MAX)] | None = None


class SchedulerConfigSpec(WrittenSettings):
    """Settings of a scheduler: a policy, as in a policy file, entries for the table of kinds, and more."""

    policy: dict[str, Any] = Field(default={})
    kinds: list[dict[str, Any]] = Field(default=[])


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Settings of a scheduler. `kinds` are an administrator's entries for the table, as text."""

    policy: Policy = field(default_factory=Policy)
    kinds: str | None = None
    devices: DeviceResources = field(default_factory=DeviceResources)
    overcommit_grace_s: float = GRACE_S  # time before pods of an over-committed node are evicted
    shared_nodes: SharedNodeRules = field(default_factory=SharedNodeRules)
    without_project: WithoutProject = IGNORE
    scale_up_over_quota: bool = False  # autoscalers add nodes for work over its quota, too
    usage: UsageSettings = field(default_factory=UsageSettings)
    share_memory: ShareMemoryRules = field(default_factory=ShareMemoryRules)
    session_headroom: int = 0  # limit of the GPUs that stay free for sessions

    def needs_new_instance(self, other: "SchedulerSettings") -> bool:
        """Return True if objects have to be read again with the other settings."""
        own = (self.kinds, self.devices, self.without_project)
        return own != (other.kinds, other.devices, other.without_project)


def with_written(base: SchedulerSettings, written: WrittenSettings) -> SchedulerSettings:
    """Return the settings with the values of a spec over them.

    Raises:
        ValueError: something of it can't be used.
    """
    stated = {name: getattr(written, name) for name in _AS_WRITTEN}
    settings = replace(base, **{name: value for name, value in stated.items() if value is not None})
    if written.device_resources:
        settings = replace(settings, devices=_devices(written.device_resources))
    if written.overcommit_grace is not None:
        settings = replace(settings, overcommit_grace_s=written.overcommit_grace)
    if written.usage is not None:
        settings = replace(settings, usage=read_usage(written.usage))
    if written.without_project is not None:
        settings = replace(settings, without_project=_without_project(written.without_project))
    return settings


def _devices(written: list[WrittenDevices]) -> DeviceResources:
    names: dict[str, int] = {}
    for device_resource in written:
        name = device_name(device_resource.resource)
        if name in names:
            raise ValueError(f"spec.deviceResources names {name} twice: leave one out")
        names[name] = device_resource.gpu_weight
    return DeviceResources.weighted(names)


def _without_project(written: WrittenWithoutProject) -> WithoutProject:
    if written.project is not None and written.action != "queue":
        raise ValueError(
            "spec.withoutProject.project goes with the action queue: write it, or leave project out"
        )
    action = f"queue:{written.project or ''}" if written.action == "queue" else written.action
    try:
        return read_rule(action, _labels(written.namespace_labels), tuple(written.exempt_namespaces))
    except ValueError:
        raise ValueError(
            "spec.withoutProject.project names no project: write the name of one, with the action queue"
        ) from None


def _labels(written: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in written.items()}
