"""Lines that `make kubernetes` prints for a second terminal."""

from types import SimpleNamespace
from typing import Any

import pytest
from tools.controlplane.__main__ import show


def test_the_second_terminal_uses_the_cluster_and_not_a_pool_of_this_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plane: Any = SimpleNamespace(
        url="https://127.0.0.1:1", kubeconfig="/x/admin", binaries={"kubectl": "/x/kubectl"}
    )
    show(plane, nodes=4, gpus=8)
    assert "    export KUBECONFIG=/x/admin WEIR_URL=kube:\n" in capsys.readouterr().out
