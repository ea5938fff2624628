"""Schedules: submissions at the times of a cron expression."""

from typing import Annotated, Literal

from pydantic import Field

from weir.api.submissions import Submission
from weir.api.workload_list import Answer, Page, Shown
from weir.scenario_io.specs import Entry

Concurrency = Literal["allow", "forbid", "replace"]


class ScheduleAsked(Entry):
    """A submission, and its cron expression.

    `concurrency` decides about a run while an earlier one isn't over: both run, the new run is skipped, or
    the earlier one is stopped.
    """

    cron: Annotated[str, Field(max_length=200)]
    zone: Annotated[str, Field(max_length=100)] = "UTC"
    concurrency: Concurrency = "allow"
    suspended: bool = False
    workload: Submission


class ScheduleRow(Answer):
    """A schedule. Times are those of the wall clock."""

    name: str
    project: str
    user: str
    cron: str
    zone: str
    concurrency: Shown[Concurrency]
    suspended: bool
    next_s: float | None  # None: suspended, or no further time
    last_s: float | None = None  # time of the last due run
    last: str | None = None  # workload of the last due run; None: skipped or refused
    said: str = ""  # cause why the last due run was skipped, refused or late
    active: list[str] = Field(default=[])  # its workloads that haven't ended
    command: list[str] = Field(default=[])


class SchedulePage(Page):
    """Page of the schedules of the projects that a person may see."""

    items: list[ScheduleRow]
