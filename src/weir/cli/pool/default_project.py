"""The project of a command without --project: $WEIR_PROJECT, or else the only one of the person."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.cli.options.mistakes import WrongOption
from weir.cli.output.outputs import NO_PROJECT
from weir.cli.output.terminal import say
from weir.client.errors import Refused

if TYPE_CHECKING:
    from weir.api.answers import QueueRow
    from weir.client.api import Pool

_FORBIDDEN, _NAMED_MAX = 403, 8


def default_project(pool: "Pool", project: str | None, *, is_shown: bool = False) -> str:
    """Return the project of an option or of the environment, or else the only one of the person.

    `is_shown`: the command prints the project itself; otherwise a project without a name is noted.

    Raises:
        WrongOption: no project is named, and the person may submit to none or to several.
    """
    chosen = project or os.environ.get("WEIR_PROJECT")
    if chosen:
        return chosen
    names = usable_projects(pool)
    if len(names) != 1:
        raise WrongOption(_missing(pool, names))
    if not is_shown:
        note_taken(names[0])
    return names[0]


def note_taken(project: str) -> None:
    """Print on the error output that a project without a name is taken."""
    say(f"Project {project} is taken, the only one that you may submit to.")


def usable_projects(pool: "Pool") -> list[str]:
    """Return the projects that the person may submit to; none if the person may not list projects."""
    return [row.name for row in _listed(pool, may_submit=True) or ()]


def project_words(names: Sequence[str]) -> str:
    """Return the names of projects for a sentence."""
    others = f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else ""
    return f"{', '.join(names[:_NAMED_MAX])}{others}"


def _missing(pool: "Pool", names: Sequence[str]) -> str:
    """Return the sentence about a missing project, with the projects to choose from."""
    if names:
        return f"no project is named: write -p PROJECT; yours are {project_words(names)}"
    rows = _listed(pool, may_submit=False)
    if rows is None:
        return NO_PROJECT
    if not rows:
        return "no project is named: an administrator creates one first with `weir project create`"
    return "no project is named, and you may submit to none: its lead or an administrator adds you"


def _listed(pool: "Pool", *, may_submit: bool) -> "Sequence[QueueRow] | None":
    """Return projects; None if the person of a cluster may not list them."""
    try:
        return pool.projects(may_submit=may_submit)
    except Refused as refused:
        if refused.status != _FORBIDDEN:
            raise
        return None
