"""Words of container runtimes about programs that aren't there, and names of workloads."""

import pytest

from weir.cli.cluster.sessions.session_container import missing_program, namespace_of, short_name


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
