"""Versions of projects and departments: a change names the version that the person has read."""

from weir.api.answers import NEW_QUEUE


def version_refusal(noun: str, name: str, now: str | None, read: str | None) -> str | None:
    """Return the refusal of a change to a queue that has another version than was read; None without one.

    `now` is None if there is no such queue, and `read` if the change replaces any version.
    """
    if read is None or read == (NEW_QUEUE if now is None else now):
        return None
    if read == NEW_QUEUE:
        return f"There is a {noun} {name} already: write another name."
    if now is None:
        return f"The {noun} {name} was deleted meanwhile."
    return f"The {noun} {name} was changed meanwhile: read it again, and repeat your change."
