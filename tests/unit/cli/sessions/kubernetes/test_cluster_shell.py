"""`weir exec` on a cluster: the workload that a name means."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from weir.cli.cluster.errors import refused, wrong
from weir.cli.sessions.kubernetes import cluster_shell
from weir.cli.sessions.kubernetes.cluster_entry import ClusterPool
from weir.client.errors import Refused


def names_asked_for(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    asked: list[str] = []

    def get(name: str) -> Any:
        asked.append(name)
        raise refused(404, f"There is no workload {name}.")

    def namespace_of(project: str) -> str:
        if project == "wide":
            raise wrong("namespace: project wide has 2: write --namespace, one of a, b")
        return f"team-{project}"

    @contextmanager
    def pool() -> Iterator[ClusterPool]:
        pool: Any = SimpleNamespace(get=get)
        transport: Any = SimpleNamespace(namespace_of=namespace_of)
        yield ClusterPool(pool, transport)

    monkeypatch.setattr(cluster_shell, "cluster_pool", pool)
    with pytest.raises(Refused):
        cluster_shell.execute(name, ["true"], None)
    return asked


@pytest.mark.parametrize(
    ("project", "name", "found"),
    [
        ("vision", "dev", "team-vision/dev"),
        ("vision", "a/dev", "a/dev"),
        ("wide", "dev", "dev"),
        ("", "dev", "dev"),
    ],
)
def test_a_command_runs_in_the_namespace_of_the_project(
    monkeypatch: pytest.MonkeyPatch, project: str, name: str, found: str
) -> None:
    monkeypatch.setenv("WEIR_PROJECT", project)
    assert names_asked_for(monkeypatch, name) == [found]
