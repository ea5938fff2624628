"""States of the containers of a pod, for those few pods whose containers are read."""

from msgspec import field

from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import ApiStruct


class ContainerStep(ApiStruct):
    """Wait, run or end of a container."""

    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None

    @property
    def ran_s(self) -> float:
        """The seconds for which it ran until its end; 0 if they aren't known."""
        begun_s, ended_s = seconds_of(self.started_at), seconds_of(self.finished_at)
        return max(0.0, ended_s - begun_s) if begun_s and ended_s else 0.0


class ContainerState(ApiStruct):
    """State of a container: one of the three is set."""

    running: ContainerStep | None = None
    waiting: ContainerStep | None = None
    terminated: ContainerStep | None = None


class ContainerRun(ApiStruct):
    """A container with its state."""

    name: str = ""
    state: ContainerState = field(default_factory=ContainerState)
    restart_count: int = 0
