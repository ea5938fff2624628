"""Names in the path of a request, for the answer if no path matches: a slash in a name parts the path."""

from itertools import pairwise
from urllib.parse import unquote

NAME_RULE = "write letters, digits, dots, dashes and underscores, at most 63, a letter or digit at both ends"
"""Rule for names that people choose, as the end of a refusal."""
_SHOWN_MAX = 80
_KINDS = {
    "projects": "a project",
    "departments": "a department",
    "workloads": "a workload",
    "templates": "a template",
    "secrets": "a secret",
    "sweeps": "a sweep",
    "schedules": "a schedule",
    "nodes": "a node",
    "maintenance": "a maintenance window",
}
_INDEX = " An index of an array is NAME[2], in quotes."


def name_refusal(path: bytes) -> str | None:
    """Return the refusal of the name with an encoded slash in a raw path; None if the path has none."""
    parts = path.decode("ascii", "replace").partition("?")[0].split("/")
    for collection, part in pairwise(parts):
        name = unquote(part)
        if "/" in name and collection in _KINDS:
            sentence = f"{name[:_SHOWN_MAX]!r} can't be the name of {_KINDS[collection]}; {NAME_RULE}."
            return sentence + (_INDEX if collection == "workloads" else "")
    return None
