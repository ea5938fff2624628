"""Errors of a client, each with one sentence and the remedy."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.api.answers import Problem


class PoolError(Exception):
    """A pool didn't carry out a request. The text is one sentence for people."""


class Unreachable(PoolError):
    """No pool answers, or no address is known."""


class Refused(PoolError):
    """The pool refused a request. `problem` holds the reasons by field."""

    def __init__(self, problem: "Problem") -> None:
        super().__init__(sentence(problem))
        self.problem = problem

    @property
    def status(self) -> int:
        """Return the HTTP status of the answer."""
        return self.problem.status

    @property
    def is_ours(self) -> bool:
        """Return True if the request was invalid, False if the pool has an error."""
        return 400 <= self.problem.status < 500


def sentence(problem: "Problem") -> str:
    """Return a refusal as text: the correction of each field, or else the whole request's."""
    fields = "; ".join(filter(None, (_of_field(error) for error in problem.errors)))
    text = fields or problem.detail or problem.title or f"the pool answered {problem.status}"
    text = " ".join(text.split())
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _of_field(error: dict[str, str]) -> str:
    """Return the correction of a field, with its name unless the text begins with it."""
    text = error.get("message") or error.get("detail") or ""
    field = error.get("field") or ""
    named, _, rest = text.partition(":")
    if field in ("", "body") or (named != text and (field.startswith(named) or named.endswith(field))):
        return text
    if rest and field.rpartition(".")[2].partition("[")[0] == named:
        return f"{field}:{rest}"
    return f"{field}: {text}"
