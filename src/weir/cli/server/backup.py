"""`weir backup` and `weir restore`: the pool's database as one file, and back."""

from getpass import getuser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weir.cli.options.mistakes import failures
from weir.cli.output.formatting import counted

_ADDRESS = "Database URL, instead of the file in the home; $WEIR_DATABASE_URL by default."
DatabaseOption = Annotated[str | None, Parameter(help=_ADDRESS)]


def backup(file: Path, /, *, database: DatabaseOption = None) -> int:
    """Write a backup of the pool's database to a file, whether the server runs or not.

    Workloads, quotas, tokens (as hashes), events and use are in it. Values of secrets, output and
    checkpoints are in other files of the home, and not in it.

    Parameters
    ----------
    file
        File to write. It must not exist yet.
    """
    from weir.cli.server.up_options import database_url
    from weir.client.address import home
    from weir.store.database.backup import backup as write
    from weir.store.errors import StoreFailed

    with failures(StoreFailed, ValueError):
        found = write(home(), database_url(database, None), file)
    workloads = f"{counted(found.workloads, 'workload')}, {found.live:,} of them pending or running"
    print(f"{file}: pool {found.id[:8]}, {workloads}, {counted(found.tokens, 'token')}.")
    return 0


def restore(file: Path, /, *, database: DatabaseOption = None) -> int:
    """Put a backup in the place of the pool's database. The server must not run.

    Numbers of workloads go on above every directory of the home. Jobs that were submitted after the backup
    are ended at the next `weir up`, and tokens that were revoked after it are valid again.

    Parameters
    ----------
    file
        A file that `weir backup` has written.
    """
    from weir.cli.server.up_options import database_url
    from weir.client.address import home
    from weir.local.server.access.audit import AuditLog
    from weir.store.database.backup import restore as put_back
    from weir.store.errors import StoreFailed

    with failures(StoreFailed, ValueError):
        found, replaced = put_back(home(), database_url(database, None), file)
    restored = f"{counted(found.workloads, 'workload')}, {counted(found.tokens, 'token')}"
    print(f"Pool {found.id[:8]} is restored: {restored}.")
    AuditLog(home()).write(
        user=getuser(),
        details={"act": "restored", "pool": found.id, "file": str(file), "opened": found.opened},
    )
    if replaced is not None:
        print(f"The database it replaces is in {replaced}.")
    print("Check `weir token list` after `weir up`: tokens revoked after the backup are valid again.")
    return 0
