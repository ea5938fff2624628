"""Files of backups: those of a server that runs on another mount, of a killed restore, and of other versions."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.store.fixtures import opened, submitted

from weir.store.database.backup import backup, restore
from weir.store.errors import StoreFailed


def names_in(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM workloads ORDER BY uid")]


@pytest.mark.parametrize("changes", [1, 99])
def test_backup_over_a_read_only_mount_is_whole_though_a_server_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    copy, left = shutil.copyfile, [changes]

    def copy_and_change(source: Path, target: Path) -> None:
        copy(source, target)
        if source.name == "weir.db" and left[0]:
            left[0] -= 1
            store.workloads.submit(submitted(f"later-{left[0]}")).result()
            with closing(sqlite3.connect(source)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    with opened(home) as store:
        store.workloads.submit(submitted("kept")).result()
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
        monkeypatch.setattr(shutil, "copyfile", copy_and_change)
        if changes > 1:
            with pytest.raises(StoreFailed, match="a server changes it: back it up where that server runs"):
                backup(home, None, file)
            assert not [path for path in tmp_path.iterdir() if path.name.startswith("backup")]
        else:
            assert backup(home, None, file).workloads == 2
            assert names_in(file) == ["kept", "later-0"]


def test_restore_that_was_killed_keeps_the_whole_replaced_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, killed, file = tmp_path / "home", tmp_path / "killed", tmp_path / "backup"
    killed.mkdir()
    with opened(home) as store:
        backup(home, None, file)
        store.workloads.submit(submitted("kept")).result()
        for name in ("weir.db", "weir.db-wal"):  # as a killed server leaves them
            shutil.copy(home / name, killed / name)
    rename, unlink = Path.rename, Path.unlink

    def check(path: Path) -> None:
        if path == killed / "weir.db-wal":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda path, target: (check(path), rename(path, target)))
        patch.setattr(Path, "unlink", lambda path, **words: (check(path), unlink(path, **words)))
        with pytest.raises(KeyboardInterrupt):
            restore(killed, None, file)
    restore(killed, None, file)
    assert names_in(killed / "weir.db") == []
    assert names_in(killed / "weir.db.replaced") == ["kept"]


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0018", "a version before the first release"),
        ("9999", "a newer version"),
        (None, "carries no version"),
    ],
)
def test_backup_of_an_unknown_version_is_refused(tmp_path: Path, version: str | None, why: str) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    with opened(home):
        backup(home, None, file)
    with closing(sqlite3.connect(file)) as connection, connection:
        if version is None:
            connection.execute("DELETE FROM alembic_version")
        else:
            connection.execute("UPDATE alembic_version SET version_num = ?", [version])
    with pytest.raises(StoreFailed, match=why):
        restore(home, None, file)
    with opened(home) as store:
        assert store.pool_id
