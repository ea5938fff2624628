"""What can go wrong between a person and a pool, each as one sentence that says what to do."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.api.answers import Problem


class PoolError(Exception):
    """A pool didn't do what it was asked. Its text is one sentence for people."""


class Unreachable(PoolError):
    """No pool answers, or none is known."""


class Refused(PoolError):
    """The pool understood, and said no. `problem` says why, field by field."""

    def __init__(self, problem: "Problem") -> None:
        super().__init__(sentence(problem))
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status it was answered with."""
        return self.problem.status

    @property
    def is_ours(self) -> bool:
        """Whether the request was wrong, rather than the pool in trouble."""
        return 400 <= self.problem.status < 500


def sentence(problem: "Problem") -> str:
    """A refusal as people read it: what each field needs, or else what was said of the whole."""
    fields = "; ".join(filter(None, (_of_field(error) for error in problem.errors)))
    said = fields or problem.detail or problem.title or f"the pool answered {problem.status}"
    said = " ".join(said.split())
    return said if said.endswith((".", "?", "!")) else f"{said}."


def _of_field(error: dict[str, str]) -> str:
    """What a field needs. Most say by themselves which one is meant."""
    said = error.get("message") or error.get("detail") or ""
    field = error.get("field") or ""
    named = said.partition(":")[0]
    if not field or (named != said and (field.startswith(named) or named.endswith(field))):
        return said
    return f"{field}: {said}"
