"""Requests and answers about replays of the pool's own history."""

from typing import Annotated, Any, Literal

from pydantic import Field

from weir.api.workload_list import Answer, Page, PointInTime, Shown
from weir.scenario_io.scalars import Span
from weir.scenario_io.specs import Entry

Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[A-Za-z0-9._=,-]+$")]
"""No slash: a policy of a file can't be named."""


class WhatIfAsked(Entry):
    """Alternatives to the pool, in the form of `weir simulate --what-if`. Policies are presets."""

    alternatives: Annotated[list[Text], Field(min_length=1, max_length=6)]
    since: Span = 7 * 86400.0
    seeds: Annotated[int, Field(ge=1, le=10)] = 3


class WhatIfRow(Answer):
    """A replay of the pool's history: its progress and its result."""

    id: str
    user: str
    at_s: PointInTime
    since_s: PointInTime
    alternatives: list[str]
    seeds: int
    state: Shown[Literal["running", "done", "failed", "cancelled"]]
    progress: float = 0.0
    jobs: int = 0
    sentence: str = ""  # cause of a failure
    result: dict[str, Any] | None = None


class WhatIfPage(Page):
    """Replays, newest first."""

    items: list[WhatIfRow]
