"""Words of container runtimes about programs that aren't there, and names of workloads."""

from typing import Any

import msgspec
import pytest

from weir.cli.cluster.pod_containers import PodContainers
from weir.cli.sessions.kubernetes.session_container import (
    awaited_start,
    missing_program,
    namespace_of,
    short_name,
)
from weir.cli.sessions.pod_entry import EntryRefused
from weir.kubernetes.api.container_address import ContainerAddress


@pytest.mark.parametrize(
    "message",
    [
        'OCI runtime create failed: exec: "jupyter-lab": executable file not found in $PATH: unknown',
        'runc create failed: exec: "jupyter-lab": stat jupyter-lab: no such file or directory',
        "container create failed: executable file `jupyter-lab` not found in $PATH: No such file or directory",
    ],
)
def test_runtimes_name_a_missing_program_in_their_words(message: str) -> None:
    assert missing_program(message) == "jupyter-lab"


def test_other_failures_name_none() -> None:
    assert missing_program("failed to mount /data: no such file or directory") is None


def test_a_workload_has_the_name_that_people_write() -> None:
    assert (short_name("vision/job-dev"), namespace_of("vision/job-dev")) == ("dev", "vision")
    assert short_name("vision/pod-dev") == "pod-dev"


def _pod(state: dict[str, Any], **metadata: Any) -> PodContainers:
    body = {
        "metadata": {"name": "dev-1", "namespace": "vision", **metadata},
        "spec": {"containers": [{"name": "proxy"}, {"name": "main", "image": "busybox"}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]},
    }
    return msgspec.convert(body, PodContainers)


_MAIN = {"kubectl.kubernetes.io/default-container": "main"}


def test_a_pod_is_entered_once_its_container_runs() -> None:
    assert _pod({"waiting": {}}, annotations=_MAIN).entered is None
    running = _pod({"running": {}}, annotations=_MAIN)
    assert running.entered == ContainerAddress("vision", "dev-1", "main")


def test_a_pod_that_is_about_to_end_is_not_entered() -> None:
    ending = _pod({"running": {}}, annotations=_MAIN, deletionTimestamp="2026-01-31T12:00:00Z")
    assert ending.entered is None


def test_a_container_that_waits_says_for_what() -> None:
    pulls = _pod({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, annotations=_MAIN)
    assert awaited_start(pulls, "sh", "") == "no such image"


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_whose_node_says_no_more_waits_for_its_image_too(reason: str) -> None:
    made = _pod({"waiting": {"reason": reason}}, annotations=_MAIN)
    assert "its node pulls the image" in awaited_start(made, "sh", "")


def test_a_container_without_the_program_is_refused_with_the_way_to_get_it() -> None:
    message = 'exec: "jupyter-lab": executable file not found in $PATH'
    over = _pod({"terminated": {"reason": "StartError", "message": message}}, annotations=_MAIN)
    with pytest.raises(EntryRefused, match="the image busybox has no jupyter-lab: install it"):
        awaited_start(over, "jupyter-lab", "install it")
    with pytest.raises(EntryRefused, match="the container of dev-1 can't be started"):
        awaited_start(over, "sh", "")
