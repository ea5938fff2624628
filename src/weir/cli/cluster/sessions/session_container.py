"""The container of a workload that a session enters, and why one that is placed doesn't run yet."""

import re
from typing import TYPE_CHECKING

from msgspec import field

from weir.cli.pod_entry import EntryRefused
from weir.kubernetes.api.container_address import ContainerAddress
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.api.paths import path_of
from weir.local.session_programs import VARIABLE

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.cli.cluster.transport import ClusterTransport

JOB_PREFIX = "job-"
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
OF_JOB = "batch.kubernetes.io/job-name"
_NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError")
_NO_PROGRAM = re.compile(r"""exec: "([^"]+)": (?:executable file not found|stat .*: no such file)""")
"""Message of runc; crun says: executable file `NAME` not found."""
_NO_PROGRAM_OF_CRUN = re.compile(r"executable file `([^`]+)` not found")


class _Variable(ApiStruct):
    name: str
    value: str = ""


class _Container(ApiStruct):
    name: str
    image: str = ""
    env: list[_Variable] = field(default_factory=list)


class _Reason(ApiStruct):
    reason: str = ""
    message: str = ""


class _ContainerState(ApiStruct):
    running: _Reason | None = None
    waiting: _Reason | None = None
    terminated: _Reason | None = None


class _ContainerStatus(ApiStruct):
    name: str
    state: _ContainerState = field(default_factory=_ContainerState)
    restart_count: int = 0


class _Spec(ApiStruct):
    containers: list[_Container] = field(default_factory=list)


class _Status(ApiStruct):
    phase: str = ""
    container_statuses: list[_ContainerStatus] = field(default_factory=list)


class PodContainers(ApiStruct):
    """A pod, with the fields that the entry into one of its containers needs."""

    metadata: Metadata
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)

    @property
    def main(self) -> _Container:
        """The container to enter: the one that kubectl takes, else the first one."""
        named = self.metadata.annotations.get(_DEFAULT_CONTAINER)
        return next((each for each in self.spec.containers if each.name == named), self.spec.containers[0])

    @property
    def _status(self) -> _ContainerStatus:
        name = self.main.name
        found = (each for each in self.status.container_statuses if each.name == name)
        return next(found, _ContainerStatus(name))

    @property
    def state(self) -> _ContainerState:
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
    def is_over(self) -> bool:
        """Return True if no container of the pod starts any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def entered(self) -> ContainerAddress | None:
        """The address of that container if it runs, and isn't about to end."""
        if self.state.running is None or self.metadata.deletion_timestamp is not None:
            return None
        return ContainerAddress(self.metadata.namespace, self.metadata.name, self.main.name)


class _Template(ApiStruct):
    spec: _Spec = field(default_factory=_Spec)


class _JobSpec(ApiStruct):
    template: _Template = field(default_factory=_Template)


class _SessionJob(ApiStruct):
    spec: _JobSpec = field(default_factory=_JobSpec)


def short_name(name: str) -> str:
    """Return the name of a workload as people write it: vision/job-dev is dev."""
    return name.rpartition("/")[2].removeprefix(JOB_PREFIX)


def namespace_of(name: str) -> str:
    """Return the namespace of a workload."""
    return name.partition("/")[0]


def session_kind(transport: "ClusterTransport", detail: "WorkloadDetail") -> str:
    """Return the kind of a workload's session in a browser, as its Job says; empty if it has none."""
    bare = detail.name.rpartition("/")[2]
    if not bare.startswith(JOB_PREFIX):
        return ""
    path = path_of("batch/v1", "jobs", namespace_of(detail.name), bare.removeprefix(JOB_PREFIX))
    try:
        job = transport.get(path, _SessionJob)
    except NotFound:
        return ""
    variables = {each.name: each.value for part in job.spec.template.spec.containers for each in part.env}
    return variables.get(VARIABLE, "")


def running_container(
    transport: "ClusterTransport", detail: "WorkloadDetail", wanted: str | None = None
) -> ContainerAddress | None:
    """Return the container of the first running pod, or of the named one; None if none runs now."""
    namespace = namespace_of(detail.name)
    for row in detail.pod_rows:
        name = row.name.rpartition("/")[2]
        if row.status != "running" or wanted not in (None, name, row.name):
            continue
        try:
            pod = transport.get(path_of("v1", "pods", namespace, name), PodContainers)
        except NotFound:
            continue
        if (address := pod.entered) is not None:
            return address
    return None


def missing_program(message: str) -> str | None:
    """Return the program that a container lacks, from its runtime's message; None for other failures."""
    found = _NO_PROGRAM.search(message) or _NO_PROGRAM_OF_CRUN.search(message)
    return None if found is None else found[1]


def job_pods(detail: "WorkloadDetail") -> tuple[str, str] | None:
    """Return the path and the label selector of the pods of a workload; None if no Job makes them."""
    bare = detail.name.rpartition("/")[2]
    if not bare.startswith(JOB_PREFIX):
        return None
    selector = f"{OF_JOB}={bare.removeprefix(JOB_PREFIX)}"
    return path_of("v1", "pods", namespace_of(detail.name)), selector


def awaited_start(pod: PodContainers, program: str, missing: str) -> str:
    """Return the reason for which a placed pod waits; empty if unknown.

    `program` is the program of the container, and `missing` the message if the image doesn't have it.

    Raises:
        EntryRefused: the container can't run.
    """
    state, image = pod.state, pod.main.image
    for over in filter(None, (state.terminated, state.waiting)):
        if over.reason in _NOT_STARTED:
            if missing_program(over.message) == program:
                raise EntryRefused(f"the image {image} has no {program}: {missing}")
            raise EntryRefused(f"the container of {pod.metadata.name} can't be started: {over.message}")
    return "" if state.waiting is None else state.waiting.message
