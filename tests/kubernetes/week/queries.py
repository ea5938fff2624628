"""The API that Weir serves, as people ask it: its lists agree with the objects, and it answers for each of them."""

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.week.invariants import Violation
from tests.kubernetes.week.snapshot import Snapshot
from tools.controlplane.api import Api, ApiError

ROOT = "/apis/query.weir.dev/v1"
_LIVE = ("Pending", "Running", "Suspended", "Stopping", "Starting")
_PAGE = 1000


def disagreements(api: Api, snapshot: Snapshot) -> Iterator[Violation]:
    """Yield each workload that the list has and the objects don't, or has with other numbers."""
    try:
        answer = api.get(f"{ROOT}/workloads?limit={_PAGE}")
    except ApiError as error:
        yield Violation("the API answers", "workloads", str(error))
        return
    listed = {row["name"]: row for row in answer["items"]}
    there = {
        f"{namespace}/{name}": each
        for (namespace, name), each in snapshot.of["workloads"].items()
        if (each.get("status") or {}).get("phase", "Pending") in _LIVE
    }
    for name in sorted(listed.keys() ^ there.keys()):
        where = "the list alone" if name in listed else "the objects alone"
        yield Violation("the API lists what is there", name, f"{name} is in {where}")
    for name in sorted(listed.keys() & there.keys()):
        given, stated = _numbers(listed[name]), _stated(there[name])
        if given != stated:
            yield Violation("the API counts pods", name, f"{name} is listed with {given}, and is {stated}")


def _numbers(row: dict[str, Any]) -> tuple[str, int]:
    return row["project"], row["pods_running"]


def _stated(workload: dict[str, Any]) -> tuple[str, int]:
    status = workload.get("status") or {}
    return workload["spec"].get("project") or "-", status.get("podsRunning") or 0
