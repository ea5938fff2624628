"""`weir kube uninstall` goes on although a part of the installation is broken."""

from pathlib import Path

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.kube.uninstall import uninstall


def test_a_mistake_in_the_settings_keeps_nothing_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeCluster() as cluster:
        data = {"scheduler": "weir", "devices": "not: [readable"}
        settings = "/api/v1/namespaces/weir-system/configmaps/weir-installation"
        cluster.add(settings, {"metadata": {}, "data": data})
        cluster.add("/api/v1/nodes", {"metadata": {}, "items": []})
        assert uninstall(dry_run=True, kubeconfig=cluster.kubeconfig(tmp_path)) == 0
    assert "The namespace weir-system" in capsys.readouterr().out
