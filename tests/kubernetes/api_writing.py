"""Parts of the tests of writes: a running API writer, its outcomes, and pods to bind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tools.controlplane.cluster import Cluster
from tools.controlplane.work import pod

from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.credentials import Kubeconfig
from weir.kubernetes.api.leader_election import AlwaysLeader, Leadership
from weir.kubernetes.writes.delivery.api_writer import ApiWriter, Pace
from weir.kubernetes.writes.operations import (
    Bind,
    Evict,
    Outcome,
    Write,
    WriteDelayed,
)

QUICK = Pace(first_s=0.02, most_s=0.2, give_up_s=600.0)
PATIENT, BRISK = ClientLimits(), ClientLimits(write_s=1.0)
"""For faults that delay an answer; a machine under load may take as long for a good one."""


class WatchProgress:
    """Outcomes as they come."""

    def __init__(self) -> None:
        self.all: list[tuple[Write, Outcome]] = []

    def __call__(self, write: Write, outcome: Outcome) -> None:
        self.all.append((write, outcome))

    def of(self, about: object) -> list[Outcome]:
        return [outcome for write, outcome in self.all if write.about == about]

    @property
    def final(self) -> list[Outcome]:
        return [outcome for _, outcome in self.all if not isinstance(outcome, WriteDelayed)]


class Switch:
    """Leadership that a test gives and takes away."""

    def __init__(self) -> None:
        self.term = 1
        self.open = True

    def may_write(self) -> bool:
        return self.open


@asynccontextmanager
async def acting_on(
    kubeconfig: Path,
    *,
    fence: Leadership | None = None,
    pace: Pace = QUICK,
    limits: ClientLimits = PATIENT,
    **more: Any,
) -> AsyncIterator[tuple[ApiWriter, WatchProgress]]:
    reported = WatchProgress()
    async with ApiClient(Kubeconfig(kubeconfig), limits) as api:
        writer = ApiWriter(api, fence or AlwaysLeader(), reported, pace=pace, **more)
        running = asyncio.create_task(writer.run())
        try:
            yield writer, reported
            assert not running.done(), running
        finally:
            running.cancel()


def make(cluster: Cluster, within: str, count: int, **more: Any) -> list[Bind]:
    """Pods, and a place for each."""
    cluster.api.create_many([pod(within, f"p{number}", **more) for number in range(count)])
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.pods(within)}
    return [
        Bind(within, name, uid, f"node-{name}", {"weir.dev/gpus": "0,3", "weir.dev/start": "17"}, about=name)
        for name, uid in sorted(uids.items())
    ]


def nodes_of(cluster: Cluster, within: str) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in cluster.pods(within)}


def evict(bind: Bind, **more: Any) -> Evict:
    return Evict(bind.namespace, bind.name, bind.uid, about=bind.about, **more)
