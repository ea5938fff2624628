"""`weir backup` and `weir restore`: the pool's database as one file, and back."""

from functools import partial
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.cli.options.mistakes import failures
from weir.cli.output.formatting import counted

if TYPE_CHECKING:
    from weir.store.database.backup import BackupContents

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
    from weir.cli.server.pool_owner import backup_as, owner_of
    from weir.cli.server.up_options import database_url
    from weir.client.address import home
    from weir.store.database.backup import backup as write
    from weir.store.errors import StoreFailed

    with failures(StoreFailed, ValueError):
        url, owner = database_url(database, None), owner_of(home())
        contents = write(home(), url, file) if owner is None else backup_as(owner, home(), url, file)
    workloads = f"{counted(contents.workloads, 'workload')}, {contents.live:,} of them pending or running"
    print(f"{file}: pool {contents.id[:8]}, {workloads}, {counted(contents.tokens, 'token')}.")
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
    from weir.cli.server.pool_owner import owner_of, restore_as
    from weir.cli.server.up_options import database_url
    from weir.client.address import home
    from weir.store.database.backup import restore as put_back
    from weir.store.errors import StoreFailed

    user = getuser()
    with failures(StoreFailed, ValueError):
        url, owner = database_url(database, None), owner_of(home())
        if owner is None:
            contents, replaced = put_back(home(), url, file)
            _record(home(), user, file, contents)
        else:
            contents, replaced = restore_as(owner, home(), url, file, partial(_record, home(), user, file))
    restored = f"{counted(contents.workloads, 'workload')}, {counted(contents.tokens, 'token')}"
    print(f"Pool {contents.id[:8]} is restored: {restored}.")
    if replaced is not None:
        print(f"The database it replaces is in {replaced}.")
    print("Check `weir token list` after `weir up`: tokens revoked after the backup are valid again.")
    return 0


def _record(home: Path, user: str, file: Path, contents: "BackupContents") -> None:
    from weir.local.server.access.audit import AuditLog

    details = {"act": "restored", "pool": contents.id, "file": str(file), "opened": contents.opened}
    AuditLog(home).write(user=user, details=details)
