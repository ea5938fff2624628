"""Errors in the fields of a request, each with a correction, as a refusal names them."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from weir.scenario_io.error_messages import add_errors
from weir.scenario_io.source_map import Mistakes, Step

Shape = TypeVar("Shape", bound=BaseModel)

ERRORS_MAX = 100
_FIELD_LENGTH_MAX = 200
_MESSAGE_LENGTH_MAX = 600


class FieldErrorList(Mistakes):
    """Errors in the fields of one body, at most ERRORS_MAX."""

    told_max = ERRORS_MAX

    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self._errors: dict[tuple[str, str], None] = {}

    def add(self, path: Sequence[Step], text: str) -> None:
        """Add a mistake in a field."""
        if len(self._errors) >= self.told_max:
            self.untold += 1
            return
        field = _shortened(field_name(path), _FIELD_LENGTH_MAX)
        self._errors.setdefault((field, _shortened(text, _MESSAGE_LENGTH_MAX)))

    def __bool__(self) -> bool:
        return bool(self._errors)

    def refuse_if_any(self) -> None:
        """Refuse the body if anything is wrong with it, with all errors."""
        if not self._errors:
            return
        errors = [{"field": field, "message": text} for field, text in self._errors]
        others = len(errors) - 1 + self.untold
        rest = f" (and {others} more)" if others else ""
        raise self.refusal(f"{self.file}: {errors[0]['message']}{rest}", errors)

    @abstractmethod
    def refusal(self, detail: str, errors: list[dict[str, str]]) -> Exception:
        """Return the exception that refuses the body."""


def read_model(
    model: type[Shape], raw: bytes | str, fields: FieldErrorList, context: Mapping[str, Any] | None = None
) -> Shape:
    """Parse a body as its model; refuse it as `fields` do, with everything that doesn't fit."""
    try:
        return model.model_validate_json(raw, context=None if context is None else dict(context))
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
            fields.add((), "the body is not JSON; write one JSON object")
        else:
            add_errors(error, model, fields)
        fields.refuse_if_any()
        raise


def _shortened(text: str, length_max: int) -> str:
    if len(text) <= length_max:
        return text
    return f"{text[: length_max // 2]} ... {text[-length_max // 2 :]}"


def field_name(path: Sequence[Step]) -> str:
    """Return a path as people write it: `pods[0].gpus`."""
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        else:
            shown = step if step.isprintable() else ascii(step)[1:-1]
            name += f".{shown}" if name else shown
    return name or "body"
