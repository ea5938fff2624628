"""Refusals of requests to the aggregated API."""

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
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
    """Return the refusal of a request while the limit of concurrent requests is reached."""
    return QueryRefused(429, "Weir answers too many requests now: try again in a second.")


def too_many_of_one(most: int) -> QueryRefused:
    """Return the refusal of a request while one person or namespace has too many open requests."""
    return QueryRefused(
        429, f"You have {most} such requests under way, and may have no more: try again later."
    )
