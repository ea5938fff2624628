"""Names as parts of a path of REST."""

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


def _no_name(name: str) -> Refused:
    from weir.api.answers import Problem

    detail = f"{name!r} is no name: write letters, digits, dashes, dots and underscores, without a slash."
    return Refused(Problem(title="Not Found", status=404, detail=detail))
