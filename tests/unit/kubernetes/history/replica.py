"""A replica with the writer of its history, on a database of its own."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from weir.api.answers import EventFilter
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.history.options import HistoryOptions
from weir.kubernetes.history.unstored import UnstoredChanges
from weir.kubernetes.history.writer import HistoryWriter
from weir.kubernetes.query.usage.recent_series import RecentSeries
from weir.kubernetes.query.usage.recent_usage import RecentUsage
from weir.kubernetes.query.workloads.event_index import EventIndex
from weir.kubernetes.query.workloads.index import WorkloadIndex
from weir.kubernetes.query.workloads.rows import EventView, RegardingView
from weir.store.cluster.reader import ClusterHistoryReader
from weir.store.cluster.records import ClusterWorkloadFilter

CLUSTER = "c1"
Make = Callable[[Callable[[], str]], "Replica"]


class Replica:
    """A replica with indexes, and a writer for each leadership."""

    def __init__(self, url: Callable[[], str]) -> None:
        self.clock = time.time
        self.workloads = WorkloadIndex()
        self.events = EventIndex(self.workloads)
        self.usage = RecentUsage(time.time())
        self.series = RecentSeries(self.usage.began_s)
        self.unstored = UnstoredChanges(self.workloads, self.events)
        self.url = url
        self.writers: list[HistoryWriter] = []

        def changed(key: str, workload: Any, at_s: float) -> None:
            self.usage.changed(key, workload, at_s)
            if workload is not None:
                self.series.take(workload, at_s)
                self.unstored.change(workload)

        self.workloads.changed = changed

    def lead(self) -> HistoryWriter:
        options = HistoryOptions(self.url, 30 * 86400.0)
        found = HistoryWriter(
            options,
            CLUSTER,
            self.unstored,
            self.workloads,
            self.events,
            self.usage,
            self.series,
            lambda since_s: asyncio.run(self.usage.copied(since_s, since_s)),
            dict,
            self.clock,
        )
        found.start()
        self.writers.append(found)
        return found

    def end(self) -> None:
        for each in self.writers:
            each.close()

    def set(self, name: str, phase: str, uid: str = "", owner: str = "", **status: Any) -> None:
        uid = uid or name.encode().hex().ljust(32, "0")
        body = {
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "creationTimestamp": stamp()},
            "spec": {"project": "vision", "owner": {"uid": owner}},
            "status": {"phase": phase, "gpus": "1", "submittedAt": stamp()} | status,
        }
        self.workloads.deliver([ObjectSet(f"ns/{name}", msgspec.convert(body, WorkloadObject))])

    def remove(self, name: str) -> None:
        self.workloads.deliver([ObjectRemoved(f"ns/{name}", "")])

    def tell(self, uid: str, workload: str, at: str = "") -> None:
        meta = Metadata(name=uid, namespace="ns", uid=uid, creation_timestamp=at or stamp())
        view = EventView(meta, None, "Scheduled", uid, RegardingView("Workload", "ns", workload))
        self.events.deliver([ObjectSet(f"ns/{uid}", view)])


def stamp(at_s: float | None = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))


def until(see: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not see():
        assert time.monotonic() < end
        time.sleep(0.01)


def stored(reader: ClusterHistoryReader) -> dict[str, str]:
    return {each.row.name: each.row.status for each in reader.workloads(ClusterWorkloadFilter(), 0, 100)[1]}


def kinds(reader: ClusterHistoryReader) -> list[str]:
    filters = (EventFilter(), EventFilter(kinds=["pending"]))
    return sorted(each.sentence for some in filters for each in reader.events(some, 0, 100).items)


def counted(reader: ClusterHistoryReader) -> tuple[int, int]:
    """Return the workloads of the last hour, and those of them that ended."""
    until_s = time.time() + 60
    (row,) = reader.usage(until_s - 3600, until_s, "project", until_s).rows
    return row.workloads, row.ended
