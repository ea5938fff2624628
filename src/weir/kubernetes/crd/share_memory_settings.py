"""The part `shareMemory` of a `SchedulerConfig`: the reaction to a pod above the memory of its share."""

from dataclasses import dataclass
from typing import Literal

from weir.scenario_io.scalars import Term
from weir.scenario_io.specs import Entry

GRACE_S = 120.0


class WrittenShareMemory(Entry):
    """Treatment of pods that use more memory of a GPU than their share."""

    on_excess: Literal["report", "evict"] = "report"
    grace: Term = GRACE_S


@dataclass(frozen=True, slots=True)
class ShareMemoryRules:
    """Rules for pods beyond their share. They are always named, and evicted if `evicts`."""

    evicts: bool = False
    grace_s: float = GRACE_S
