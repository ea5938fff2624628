"""Commands for a cluster: options, warnings, and the refusal of the Python client."""

import json
from pathlib import Path

import pytest

from weir.cli.main import main


def test_a_cluster_has_no_address_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.client.api import Pool
    from weir.client.errors import Unreachable

    with pytest.raises(Unreachable, match="is a cluster, which `weir` on the command line asks"):
        Pool("kube:")


def test_words_of_clusters_mean_nothing_to_a_pool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_URL", "http://127.0.0.1:1")
    assert main(["submit", "-p", "a", "--namespace", "x", "--", "x"]) == 2
    assert "--namespace is for clusters: leave it out, or set WEIR_URL=kube:" in capsys.readouterr().err


@pytest.mark.parametrize("skips", [True, False])
def test_a_kubeconfig_that_skips_the_check_of_certificates_is_used_with_a_warning(
    skips: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _use_cluster(tmp_path, monkeypatch, skips=skips)
    assert main(["list"]) == 3
    answer = capsys.readouterr()
    assert answer.out == ""
    reported = (
        "weir: warning: the kubeconfig has insecure-skip-tls-verify, so anyone on the way to the API server"
    )
    assert (reported in answer.err) is skips


def test_devices_that_are_none_are_refused_before_a_cluster_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["up", "--on", "kubernetes", "--devices", "nvidia.com/gpu,gpu"]) == 2
    assert capsys.readouterr().err == (
        "weir: --devices: 'gpu' is no resource of a device plugin: write names such as nvidia.com/gpu, with "
        "commas between them.\n"
    )


@pytest.mark.parametrize(("times", "code"), [(2, 0), (10**6, 2)])
def test_a_read_is_repeated_while_the_api_server_has_no_time(
    times: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from weir.api.answers import NodePage
    from weir.cli.cluster import requests
    from weir.cli.cluster.queries import ClusterQueries
    from weir.kubernetes.api.errors import TooManyRequests

    asked: list[None] = []

    async def nodes(_: ClusterQueries) -> NodePage:
        asked.append(None)
        if len(asked) <= times:
            raise TooManyRequests(429, "", "storage is (re)initializing", retry_after_s=0.0, by_budget=False)
        return NodePage(total=0, items=[])

    _use_cluster(tmp_path, monkeypatch, skips=False)
    monkeypatch.setattr(requests, "BUSY_S", 600.0 if code == 0 else 0.3)
    monkeypatch.setattr(ClusterQueries, "nodes", nodes)
    assert main(["nodes", "-o", "json"]) == code
    answer = capsys.readouterr()
    assert (len(asked) == times + 1) is (code == 0)
    assert ("initializing" in answer.err) is (code != 0)


def _use_cluster(directory: Path, monkeypatch: pytest.MonkeyPatch, *, skips: bool) -> None:
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": skips}}
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (directory / "config").write_text(json.dumps(written))
    monkeypatch.setenv("WEIR_URL", "kube:")
    monkeypatch.setenv("KUBECONFIG", str(directory / "config"))
