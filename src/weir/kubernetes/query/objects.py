"""Parts of an Event that people see."""

from msgspec import field

from weir.kubernetes.api.objects import ApiStruct, Metadata


class RegardingView(ApiStruct):
    """The object of an Event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class EventView(ApiStruct):
    """An Event."""

    metadata: Metadata
    event_time: str | None = None
    reason: str = ""
    note: str = ""
    regarding: RegardingView = field(default_factory=RegardingView)
    reporting_controller: str = ""
