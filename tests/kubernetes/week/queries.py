"""The API that Weir serves, as people ask it: its lists agree with the objects, and it answers for each of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.kubernetes.week.invariants import Violation
from tools.controlplane.api import Api, ApiError, Object

ROOT = "/apis/query.weir.dev/v1"
_ENDED = ("Succeeded", "Failed", "Stopped")
_PAGE = 500
_FAILED = 500
"""The least code of an answer that failed."""


def disagreements(api: Api, workloads: Mapping[tuple[str, str], Object]) -> Iterator[Violation]:
    """Yield each workload that the list has and the objects don't, or has with other numbers.

    `workloads` are the objects by namespace and name.
    """
    try:
        listed = {row["name"]: row for row in _pages(api)}
    except ApiError as error:
        yield Violation("the API answers", "workloads", str(error))
        return
    there = {
        f"{namespace}/{name}": each
        for (namespace, name), each in workloads.items()
        if (each.get("status") or {}).get("phase") not in _ENDED
    }
    for name in sorted(listed.keys() ^ there.keys()):
        where = "the list alone" if name in listed else "the objects alone"
        yield Violation("the API lists what is there", name, f"{name} is in {where}")
    for name in sorted(listed.keys() & there.keys()):
        given, stated = _numbers(listed[name]), _stated(there[name])
        if given != stated:
            yield Violation("the API counts pods", name, f"{name} is listed with {given}, and is {stated}")


def unanswered(api: Api, names: Iterable[str]) -> Iterator[Violation]:
    """Yield each workload that the API fails at. A refusal with a reason is an answer."""
    for name in names:
        namespace, _, workload = name.partition("/")
        for part in ("", "/why", "/decision"):
            try:
                api.maybe(f"{ROOT}/namespaces/{namespace}/workloads/{workload}{part}")
            except ApiError as error:
                if error.code >= _FAILED:
                    yield Violation("the API answers", f"{name}{part}", str(error))


def _pages(api: Api) -> Iterator[dict[str, Any]]:
    """Yield all workloads of the list."""
    after: str | None = "0"
    while after is not None:
        answer = api.get(f"{ROOT}/workloads?limit={_PAGE}&after={after}")
        yield from answer["items"]
        after = answer["next"]


def _numbers(row: dict[str, Any]) -> tuple[str, int]:
    return row["project"], row["pods_running"]


def _stated(workload: dict[str, Any]) -> tuple[str, int]:
    status = workload.get("status") or {}
    return workload["spec"].get("project") or "-", status.get("podsRunning") or 0
