"""Names as parts of a path of REST."""

from urllib.parse import quote

from weir.client.errors import Refused


def path_part(name: str) -> str:
    """Return a name as one part of a path.

    Raises:
        Refused: no part of a path has this name, so nothing of the pool does.
    """
    if not name or "/" in name or name in (".", ".."):
        from weir.api.answers import Problem

        detail = f"{name!r} is no name: write letters, digits, dashes, dots and underscores, without a slash."
        raise Refused(Problem(title="Not Found", status=404, detail=detail))
    return quote(name, safe="")
