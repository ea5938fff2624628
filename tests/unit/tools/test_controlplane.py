"""Lines that `make kubernetes` prints for a second terminal."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tools.controlplane.__main__ import show


def _plane() -> Any:
    return SimpleNamespace(
        url="https://127.0.0.1:1", kubeconfig="/x/admin", binaries={"kubectl": "/x/kubectl"}
    )


def test_the_second_terminal_uses_the_cluster_and_not_a_pool_of_this_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(_plane(), nodes=4, gpus=8)
    assert "    export KUBECONFIG=/x/admin WEIR_URL=kube:\n" in capsys.readouterr().out


def test_programs_that_the_shell_does_not_find_are_added_to_its_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    show(_plane(), nodes=4, gpus=8)
    added = re.findall(r'export PATH="\$PATH:(.+)"', capsys.readouterr().out)
    assert added == ["/x", str(Path(sys.executable).parent)]
