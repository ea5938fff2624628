"""Answers that the routes of the API get from the process, and refusals."""

from collections.abc import Mapping
from typing import Any, Protocol

from weir.api.answers import NodeRow, PodRow, PoolStatus, QueueRow, WhyAnswer
from weir.api.decision import DecisionAnswer
from weir.api.workload_list import ActivityRow
from weir.kubernetes.query.workload_index import WorkloadIndexEntry
from weir.kubernetes.usage.cluster_use import MeasuredUse

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


class QueryRefused(Exception):
    """A request can't be answered; the sentence names the remedy."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence

    def noted(self, note: str | None) -> "QueryRefused":
        """Return this refusal with a sentence on the part that the answer lacks."""
        return self if note is None else QueryRefused(self.status, f"{self.sentence} {note}")

    def as_status(self) -> dict[str, Any]:
        """Return the refusal as the API server puts it."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.sentence,
            "reason": REASONS.get(self.status, "InternalError"),
            "code": self.status,
        }


def not_forwarded() -> QueryRefused:
    """Return the refusal of a request that the API server didn't forward."""
    return QueryRefused(401, "Only the API server's front proxy may ask here: use kubectl or weir.")


def too_many() -> QueryRefused:
    """Return the refusal of a request beyond those that may be under way."""
    return QueryRefused(429, "Weir answers too many requests now: try again in a second.")


class ClusterAnswers(Protocol):
    """Answers from the state of the scheduler, as it is on this replica."""

    def close(self) -> None:
        """Refuse further questions."""
        ...

    def pods(self, workload: WorkloadIndexEntry) -> list[PodRow]:
        """Return the pods of a workload."""
        ...

    def activity(self, workload: WorkloadIndexEntry) -> ActivityRow | None:
        """Return the activity of a workload; None if it holds no GPUs, or nothing measures them."""
        ...

    def measured(self) -> Mapping[str, MeasuredUse]:
        """Return the workloads of the newest reading of the use; another mapping after each reading."""
        ...

    async def why(self, workload: WorkloadIndexEntry, *, all_namespaces: bool, wait_s: float) -> WhyAnswer:
        """Return the reason of a pending workload; `all_namespaces` includes data of others."""
        ...

    async def decision(self, workload: WorkloadIndexEntry) -> DecisionAnswer:
        """Return how the nodes score for a workload, and the victims that it may evict."""
        ...

    def queues(self) -> Mapping[str, QueueRow]:
        """Return projects and departments by name."""
        ...

    async def nodes(self) -> list[NodeRow]:
        """Return the nodes."""
        ...

    async def status(self) -> PoolStatus:
        """Return a summary of the cluster."""
        ...

    async def snapshot(self) -> str:
        """Return a scenario that replays the next decision."""
        ...
