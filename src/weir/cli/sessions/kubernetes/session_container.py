"""Container that a session enters, and the cause why a placed pod isn't running yet."""

import re
from typing import TYPE_CHECKING

from msgspec import field

from weir.cli.cluster.pod_containers import OF_JOB, ContainersSpec, PodContainers
from weir.cli.sessions.pod_entry import EntryRefused
from weir.kubernetes.api.container_address import ContainerAddress
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.objects import ApiStruct
from weir.kubernetes.api.paths import path_of
from weir.local.starts.session_programs import VARIABLE

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.cli.cluster.transport import ClusterTransport

JOB_PREFIX = "job-"
_NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError")
_PREPARED_FOR = ("ContainerCreating", "PodInitializing")
"""Reasons of a kubelet without a message, also while it pulls an image for minutes."""
_PREPARING = "its node pulls the image, or prepares volumes, network and init containers"
_NO_PROGRAM = re.compile(r"""exec: "([^"]+)": (?:executable file not found|stat .*: no such file)""")
"""Pattern of the messages of runc and crun about a missing program; crun's has `NAME` not found."""
_NO_PROGRAM_OF_CRUN = re.compile(r"executable file `([^`]+)` not found")


class _Template(ApiStruct):
    spec: ContainersSpec = field(default_factory=ContainersSpec)


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
    """Return the session kind in the Job of a workload; empty if it is no session of a browser."""
    bare = detail.name.rpartition("/")[2]
    if not bare.startswith(JOB_PREFIX):
        return ""
    path = path_of("batch/v1", "jobs", namespace_of(detail.name), bare.removeprefix(JOB_PREFIX))
    try:
        job = transport.get(path, _SessionJob)
    except NotFound:
        return ""
    variables = {
        variable.name: variable.value for part in job.spec.template.spec.containers for variable in part.env
    }
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
    """Return the program missing in a container, from its runtime's message; None for other errors."""
    match = _NO_PROGRAM.search(message) or _NO_PROGRAM_OF_CRUN.search(message)
    return None if match is None else match[1]


def job_pods(detail: "WorkloadDetail") -> tuple[str, str] | None:
    """Return the path and the label selector of the pods of a workload; None if no Job makes them."""
    bare = detail.name.rpartition("/")[2]
    if not bare.startswith(JOB_PREFIX):
        return None
    selector = f"{OF_JOB}={bare.removeprefix(JOB_PREFIX)}"
    return path_of("v1", "pods", namespace_of(detail.name)), selector


def awaited_start(pod: PodContainers, program: str, missing: str) -> str:
    """Return the reason why a placed pod waits; empty if unknown.

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
    if state.waiting is None:
        return ""
    return state.waiting.message or (_PREPARING if state.waiting.reason in _PREPARED_FOR else "")
