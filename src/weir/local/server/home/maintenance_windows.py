"""Maintenance windows and drains at a time, kept in a file of the home: they survive restarts.

Times are those of the wall clock, since people agreed on them. They are converted to the timeline by the
present difference of both clocks. So a wrong clock moves a window by its own error and no more.
"""

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog import get_logger

from weir.api.maintenance import Running, WallTime
from weir.control.clock import Clock, in_utc
from weir.local.server.home import private_files
from weir.local.server.home.node_drain import REASON_MAX
from weir.model.nodes import Outage

FILE = "maintenance.json"
WINDOWS_MAX: Final = 100
GPUS_MAX: Final = 1024
_LOG = get_logger(__name__)


class MaintenanceWindow(BaseModel):
    """A time in which the node, or GPUs of it, are out of service; a drain at a time if it has no end."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    name: Annotated[str, Field(max_length=63)]
    from_s: WallTime
    until_s: WallTime | None = None
    gpus: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=GPUS_MAX)] | None = None
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""
    user: Annotated[str, Field(max_length=500)] = ""
    running: Running = "evict"

    @property
    def is_drain(self) -> bool:
        """Return True if the window is a drain at a time, without an end."""
        return self.until_s is None

    @property
    def sentence(self) -> str:
        """Return the times and the reason in words."""
        reason = f" ({self.reason})" if self.reason else ""
        if self.until_s is None:
            return f"a drain by {self.user} at {in_utc(self.from_s)}{reason}"
        return f"maintenance from {in_utc(self.from_s)} until {in_utc(self.until_s)}{reason}"

    def outage(self, clock: Clock) -> Outage:
        """Return the outage on the timeline."""
        return Outage(
            clock.from_wall(self.from_s),
            None if self.until_s is None else clock.from_wall(self.until_s),
            self.gpus,
            self.sentence,
            keeps_running=self.running != "evict",
        )


class MaintenanceWindows(BaseModel):
    """Windows and drains at a time, soonest first."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    windows: Annotated[tuple[MaintenanceWindow, ...], Field(max_length=WINDOWS_MAX)] = ()

    def get(self, name: str) -> MaintenanceWindow | None:
        """Return a window by its name; None if there is none."""
        return next((window for window in self.windows if window.name == name), None)

    def with_(self, window: MaintenanceWindow) -> "MaintenanceWindows":
        """Return the windows with one added, which replaces that of the same name."""
        others = [other for other in self.windows if other.name != window.name]
        ordered = sorted([*others, window], key=lambda planned: (planned.from_s, planned.name))
        return MaintenanceWindows(windows=tuple(ordered))

    def without(self, *names: str) -> "MaintenanceWindows":
        """Return the windows without these."""
        return MaintenanceWindows(
            windows=tuple(window for window in self.windows if window.name not in names)
        )


def read_windows(home: Path) -> MaintenanceWindows | None:
    """Return the windows of a home; None if the file can't be read."""
    try:
        text = private_files.read(home / FILE)
        return MaintenanceWindows() if text is None else MaintenanceWindows.model_validate_json(text)
    except (OSError, ValidationError) as error:
        _LOG.warning("maintenance_unreadable", why=type(error).__name__)
        return None


def write_windows(home: Path, windows: MaintenanceWindows) -> None:
    """Write the windows durably.

    Raises:
        OSError: the file can't be written; the old state stays.
    """
    private_files.write_durably(home / FILE, windows.model_dump_json() if windows.windows else None)
