"""A pod with its containers, and the state of its main container."""

from msgspec import field

from weir.kubernetes.api.container_address import ContainerAddress
from weir.kubernetes.api.container_states import ContainerRun, ContainerState
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.api.objects import ApiStruct, Metadata

OF_JOB = "batch.kubernetes.io/job-name"
"""Label of the pods of a Job."""
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class _Variable(ApiStruct):
    name: str
    value: str = ""


class _Container(ApiStruct):
    name: str
    image: str = ""
    env: list[_Variable] = field(default_factory=list)


class ContainersSpec(ApiStruct):
    """The containers of a pod."""

    containers: list[_Container] = field(default_factory=list)


class _Status(ApiStruct):
    phase: str = ""
    container_statuses: list[ContainerRun] = field(default_factory=list)


class PodContainers(ApiStruct):
    """A pod, with the fields that are needed to enter one of its containers."""

    metadata: Metadata
    spec: ContainersSpec = field(default_factory=ContainersSpec)
    status: _Status = field(default_factory=_Status)

    @property
    def main(self) -> _Container:
        """The container to enter: the one that kubectl takes, else the first one."""
        named = self.metadata.annotations.get(_DEFAULT_CONTAINER)
        return next(
            (container for container in self.spec.containers if container.name == named),
            self.spec.containers[0],
        )

    @property
    def _status(self) -> ContainerRun:
        name = self.main.name
        statuses = (status for status in self.status.container_statuses if status.name == name)
        return next(statuses, ContainerRun(name))

    @property
    def state(self) -> ContainerState:
        """The state of that container."""
        return self._status.state

    @property
    def restarts(self) -> int:
        """Number of restarts of that container within the pod."""
        return self._status.restart_count

    @property
    def has_begun(self) -> bool:
        """Return True if that container runs or has run."""
        return bool(self.restarts or self.state.running or self.state.terminated)

    @property
    def begun_s(self) -> float | None:
        """The time of the last start of that container, if it is known."""
        step = self.state.running or self.state.terminated
        return None if step is None else at_s(step.started_at)

    @property
    def is_over(self) -> bool:
        """Return True if no container of the pod starts any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def entered(self) -> ContainerAddress | None:
        """The address of that container if it runs, and isn't about to end."""
        if self.state.running is None or self.metadata.deletion_timestamp is not None:
            return None
        return ContainerAddress(self.metadata.namespace, self.metadata.name, self.main.name)
