"""A cluster for tests of commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster


@pytest.fixture
def fake_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        monkeypatch.setenv("WEIR_URL", "kube:")
        monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig(tmp_path)))
        yield running
