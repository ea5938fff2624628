"""Drains and maintenance windows: requests and answers."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from weir.api.answers import Answer, Page
from weir.api.workload_list import Shown
from weir.scenario_io.scalars import Device, Name, Span
from weir.scenario_io.specs import Entry

Running = Literal["evict", "finish", "stop"]
"""Fate of running work: back to its queue, on until it ends, or ended for good."""


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has characters that can't be printed; write plain text on one line")
    return text


PlainReason = Annotated[str, Field(max_length=200), AfterValidator(_plain)]
WallTime = Annotated[float, Field(ge=0.0, le=1e11)]
"""Seconds since 1970 on the wall clock."""


class _Drain(Entry):
    """A drain now, at a time of the wall clock, or after some time.

    With `later_only`, a drain that would begin now is refused (409): a client asks a person first.
    """

    reason: PlainReason = ""
    running: Running | None = None
    at_s: WallTime | None = None
    after: Span | None = None
    later_only: bool = False

    @model_validator(mode="after")
    def _at_one_time(self) -> "_Drain":
        if self.at_s is not None and self.after is not None:
            raise ValueError("at_s and after exclude each other; write one of them")
        return self


class DrainAsked(_Drain):
    """Request to drain a node now, `at_s` or `after` some time.

    Its running work goes back to its queues (`evict`, the default), runs on until it ends (`finish`) or is
    ended for good (`stop`). `keep_running` means `finish`.
    """

    keep_running: bool = False


class GpuDrainAsked(_Drain):
    """Request to drain a GPU of a node. By default, the work that it runs goes on (`finish`)."""


class MaintenanceAsked(Entry):
    """Request to announce a maintenance window of the node, or of some of its GPUs.

    Work that still runs when it begins goes back to its queues (`evict`), or runs on (`finish`).
    With `later_only`, a window that would begin now is refused (409): a client asks a person first.
    """

    name: Name | None = None
    from_s: WallTime
    until_s: WallTime
    gpus: Annotated[list[Device], Field(min_length=1, max_length=1024)] | None = None
    reason: PlainReason = ""
    running: Literal["evict", "finish"] = "evict"
    later_only: bool = False


class MaintenanceRow(Answer):
    """A maintenance window, or a drain at a time if it has no end. Times are those of the wall clock."""

    name: str
    node: str
    gpus: list[int] | None
    from_s: float
    until_s: float | None
    reason: str
    user: str
    running: Shown[Running]
    begun: bool


class MaintenancePage(Page):
    """Page of maintenance windows and drains at a time, soonest first."""

    items: list[MaintenanceRow]
