"""Errors in the fields of a body that a cluster would get."""

from weir.api.answers import Problem
from weir.api.field_errors import FieldErrorList
from weir.client.errors import Refused


class BodyErrors(FieldErrorList):
    """Errors in the fields of a body, as the refusal of a cluster."""

    def refusal(self, detail: str, errors: list[dict[str, str]]) -> Exception:
        """Return the refusal of the body."""
        return Refused(Problem(title="The cluster refused", status=422, detail=detail, errors=errors))
