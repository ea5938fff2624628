"""Ends of exec streams: exit codes, and reasons of commands that didn't start."""

import json

import pytest

from weir.kubernetes.api.container_address import ExecNotStarted
from weir.kubernetes.api.exec_stream import exit_code_of


def status(**fields: object) -> bytes:
    return json.dumps({"metadata": {}, **fields}).encode()


def test_a_status_has_the_exit_code() -> None:
    causes = [{"reason": "ExitCode", "message": "137"}]
    failed = status(status="Failure", reason="NonZeroExitCode", details={"causes": causes})
    assert exit_code_of(status(status="Success")) == 0
    assert exit_code_of(failed) == 137


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (status(status="Failure", reason="InternalError", message="no such container"), "no such container"),
        (status(status="Failure", reason="NonZeroExitCode", details={"causes": []}), "NonZeroExitCode"),
        (
            status(
                status="Failure",
                reason="NonZeroExitCode",
                details={"causes": [{"reason": "ExitCode", "message": "-1; x"}]},
            ),
            "NonZeroExitCode",
        ),
        (b"a proxy's words", "a proxy's words"),
        (b"", "no reason"),
    ],
)
def test_other_ends_are_no_exit_code(written: bytes, why: str) -> None:
    with pytest.raises(ExecNotStarted, match=why):
        exit_code_of(written)
