"""Fixtures of the history: a database, its reader, and replicas that end with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weir.kubernetes.history.retention import retention_of
from weir.store.cluster.reader import ClusterHistoryReader

from .replica import CLUSTER, Make, Replica


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/history.db"


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Replica] = []

    def replica(url: Callable[[], str]) -> Replica:
        made.append(Replica(url))
        return made[-1]

    yield replica
    for each in made:
        each.end()


@pytest.fixture
def reader(url: str) -> Iterator[ClusterHistoryReader]:
    found = ClusterHistoryReader(url, CLUSTER, retention_of(86400.0))
    yield found
    found.close()
