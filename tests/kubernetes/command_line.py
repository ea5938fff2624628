"""The command line against a control plane, and a Weir that answers it."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.queries import on_loopback, wait_for_queries, withdraw
from tools.controlplane.weir import Weir

from weir.cli.main import main
from weir.kubernetes.install.manifests import Installation, manifests

Run = Callable[..., tuple[int, str, str]]


def runner(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`weir WORDS...` with a kubeconfig: its exit code, its output, what it says."""

    def run(*words: str, kubeconfig: Path = plane.kubeconfig) -> tuple[int, str, str]:
        monkeypatch.setenv("WEIR_URL", "kube:")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        capsys.readouterr()
        code = main(list(words))
        answer = capsys.readouterr()
        return code, answer.out, answer.err

    return run


@contextmanager
def answering(
    cluster: Cluster,
    home: str,
    name: str = "cli",
    arguments: Sequence[str] = (),
    *,
    account: Path | None = None,
    **options: Any,
) -> Iterator[Weir]:
    """Run Weir with its API, and wait until the API server forwards requests to it.

    `account` is another kubeconfig than that of its service account.
    """
    port = free_port()
    parts = on_loopback(manifests(Installation(home, **options)), port)
    cluster.api.apply(*(each for each in parts if each["kind"] in ("Service", "APIService")))
    words = ["--namespace", home, "--service", "weir", "--host", "127.0.0.1", *arguments]
    account = account or cluster.plane.kubeconfig_of(home, "weir")
    with Weir(cluster.plane, account, name=name, arguments=words, port=port) as running:
        wait_for_queries(cluster.api)
        try:
            yield running
        finally:
            withdraw(cluster.api)


def listed(run: Run, *words: str) -> dict[str, Any]:
    code, out, err = run("list", "-A", "-o", "json", *words)
    assert code == 0, err
    return {row["name"]: row for row in json.loads(out)}


def is_now(cluster: Cluster, run: Run, name: str, status: str) -> Callable[[], bool]:
    """Return a check that the command line lists this status, once the object has it: that is cheaper to ask.

    The API server answers in place of a Weir that it takes for absent, since that was late for once.
    """
    namespace, _, workload = name.partition("/")
    path = f"/apis/weir.dev/v1alpha1/namespaces/{namespace}/workloads/{workload}"

    def holds() -> bool:
        there = (cluster.api.maybe(path) or {}).get("status") or {}
        is_there = str(there.get("phase", "")).lower() == status
        code, out, _ = run("list", "-A", "-o", "json") if is_there else (1, "", "")
        rows = json.loads(out) if code == 0 else ()
        return any((row["name"], row["status"]) == (name, status) for row in rows)

    return holds


def pending_of(run: Run, project: str, workload: str) -> list[int]:
    """Return the pending workloads of a project: in their list, in that of projects, and in `weir why`."""
    statuses = [row["status"] for row in listed(run).values() if row["project"] == project]
    projects = json.loads(run("project", "list", "-o", "json")[1])
    queues = json.loads(run("why", workload, "-o", "json")[1])["queues"]
    counts = [row["pending"] for row in (*projects, *queues) if row["name"] == project]
    return [statuses.count("pending"), *counts]
