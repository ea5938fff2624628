"""Parts of a call: names in its path, and the parameters and fields that are stated."""

from typing import Any
from urllib.parse import quote

from weir.client.errors import Refused


def path_part(name: str) -> str:
    """Return a name as one part of a URL path. On clusters a name may be `NAMESPACE/NAME`.

    Raises:
        Refused: no part of a path has this name, so nothing does.
    """
    if not name or name in (".", ".."):
        raise _no_name(name)
    return quote(name, safe="")


def stated(**values: Any) -> dict[str, Any]:
    """Return the fields that aren't None."""
    return {name: value for name, value in values.items() if value is not None}


def params(**values: str | float | None) -> dict[str, str]:
    """Return the parameters that aren't None or empty, as texts."""
    return {name: str(value) for name, value in stated(**values).items() if value != ""}


def _no_name(name: str) -> Refused:
    from weir.api.answers import Problem

    detail = f"{name!r} is no name: write letters, digits, dashes, dots and underscores, without a slash."
    return Refused(Problem(title="Not Found", status=404, detail=detail))
