"""Rights to run a workload again: its new user gets all it was submitted with, so they must be its reader."""

from weir.local.server.authorization import Action, Person, may
from weir.local.server.problem_details import RequestRefused
from weir.store import StoredWorkload

SHELL_VARIABLES = frozenset(
    ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
)
"""Variables that the command line sends along: others of a project may run a workload again with them."""


def check_rerun(recorded: StoredWorkload, person: Person) -> None:
    """Refuse to run a workload again with details that were removed, or that the person may not read.

    Raises:
        Refused: it can't be run again by them.
    """
    name, user = recorded.row.name, recorded.row.user
    if not recorded.record.launch.command:
        raise RequestRefused(
            409,
            f"Command and environment of {name} are removed (weir up --keep-details): submit it again.",
        )
    hidden = [key for key, _ in recorded.record.launch.environment if key not in SHELL_VARIABLES]
    project = recorded.row.project
    if hidden and not may(person, Action.READ_ENVIRONMENT, project, owner=user):
        raise RequestRefused(
            403,
            f"{name} was submitted by {user} with private values ({', '.join(hidden[:3])}): "
            "they or an administrator can rerun it.",
        )
