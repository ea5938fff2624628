"""A home and a database belong together, or nothing begins."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.store.fixtures import end, opened, submitted
from tools import prefork

from weir.store.database.backup import backup, restore
from weir.store.errors import StoreFailed
from weir.store.projects.tokens import token_hash
from weir.store.store import Store


def used(home: Path) -> None:
    """A pool with one workload that has directories."""
    with opened(home) as store:
        uid = store.workloads.submit(submitted("train")).result().launch.uid
        for directory in ("pods", "checkpoints"):
            (home / directory / str(uid)).mkdir(parents=True)


def lose(home: Path, *names: str) -> None:
    for name in names:
        (home / name).unlink(missing_ok=True)


def test_pool_has_one_id_in_both_places(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first = store.pool_id
    with opened(tmp_path) as store:
        assert store.pool_id == first
    assert json.loads((tmp_path / "pool.json").read_text())["id"] == first
    assert stat.S_IMODE((tmp_path / "pool.json").stat().st_mode) == 0o600
    with opened(tmp_path / "other") as store:
        assert store.pool_id != first


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


LOSSES: dict[str, Callable[[Path, Path], None]] = {
    "database": lambda home, _: lose(home, "weir.db", "weir.db-wal", "weir.db-shm"),
    "database and id": lambda home, _: lose(home, "weir.db", "weir.db-wal", "weir.db-shm", "pool.json"),
    "id of the home": lambda home, _: lose(home, "pool.json"),
    "emptied database": lambda home, _: (home / "weir.db").write_bytes(b""),
    "unreadable id": lambda home, _: (home / "pool.json").write_text("{}"),
    "id in a FIFO": lambda home, _: replace_by_fifo(home / "pool.json"),
    "database of another pool": lambda home, other: shutil.copy(other / "weir.db", home / "weir.db"),
    "home of another pool": lambda home, other: shutil.copy(other / "pool.json", home / "pool.json"),
    "directories above the numbers": lambda home, _: (home / "pods" / "7").mkdir(),
    "checkpoints above the numbers": lambda home, _: (home / "checkpoints" / "7").mkdir(),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_doesnt_belong_together_is_refused_with_the_way_out(tmp_path: Path, loss: str) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    used(home)
    used(other)
    LOSSES[loss](home, other)
    for _ in range(2):  # being refused changes nothing
        with pytest.raises(StoreFailed, match="--begin-again") as refused:
            Store(None, home)
        assert "\n" not in str(refused.value)
    highest = max(int(path.name) for path in (*(home / "pods").iterdir(), *(home / "checkpoints").iterdir()))
    with_flag = Store(None, home, begin_again=True)
    with_flag.close()
    with opened(home) as store:  # the flag isn't needed again
        assert store.has_leftovers
        store.leftovers_ended()
        assert store.workloads.submit(submitted("next")).result().launch.uid > highest


def test_entries_that_no_pool_made_dont_keep_a_server_from_its_home(tmp_path: Path) -> None:
    """A job may leave anything beside its own directory: what is no directory of a number counts for none."""
    used(tmp_path)
    for directory in ("pods", "checkpoints"):
        os.mkfifo(tmp_path / directory / "12345678")
        (tmp_path / directory / "87654321").symlink_to("/")
        (tmp_path / directory / "7").write_text("")
        (tmp_path / directory / ("9" * 18)).mkdir()
        (tmp_path / directory / "x").mkdir()
    with opened(tmp_path) as store:
        assert store.workloads.submit(submitted("next")).result().launch.uid < 10


def test_directory_above_the_numbers_is_named(tmp_path: Path) -> None:
    used(tmp_path)
    stray = tmp_path / "checkpoints" / "2025"
    stray.mkdir()
    with pytest.raises(StoreFailed, match=f"{stray} has a higher one: move that away"):
        Store(None, tmp_path)
    stray.rmdir()
    with opened(tmp_path):
        pass


def test_older_copy_of_the_database_is_refused(tmp_path: Path) -> None:
    used(tmp_path)
    copy = (tmp_path / "weir.db").read_bytes()
    with opened(tmp_path) as store:
        token, _ = store.tokens.make("mia", "member", ["vision"])
        store.tokens.delete(token.id)
    (tmp_path / "weir.db").write_bytes(copy)
    with pytest.raises(StoreFailed, match="older copy"):
        Store(None, tmp_path)


def test_database_without_what_was_still_beside_it_is_refused(tmp_path: Path) -> None:
    """After a kill, everything new is in the WAL."""
    home = tmp_path / "home"
    store = Store(None, tmp_path / "lives")
    try:
        shutil.copytree(tmp_path / "lives", home)  # as a kill leaves it
    finally:
        store.close()
    lose(home, "weir.db-wal", "weir.db-shm")
    with pytest.raises(StoreFailed, match="new and empty"):
        Store(None, home)


def test_home_begun_but_never_opened_goes_on(tmp_path: Path) -> None:
    """The server was killed between the two places, at its very first start."""
    (tmp_path / "pool.json").write_text(json.dumps({"id": "a" * 32, "opened": 0}))
    with opened(tmp_path) as store:
        assert store.pool_id == "a" * 32


def test_two_homes_cant_open_one_sqlite_file(tmp_path: Path) -> None:
    """Record locks hold between processes, so the other home is a process of its own."""
    url = f"sqlite:///{tmp_path}/shared.db"
    opens = "import sys; from pathlib import Path; from weir.store.store import Store; Store(sys.argv[1], Path(sys.argv[2]))"
    store = Store(url, tmp_path / "one")
    try:
        command_ = [sys.executable, "-c", opens, url, str(tmp_path / "two")]
        second = prefork.run(command_)
        assert "Another server has the database" in second.stderr
    finally:
        store.close()


def test_each_restore_keeps_the_database_that_it_replaces(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    with opened(home) as store:
        backup(home, None, file)
        store.workloads.submit(submitted("only-here")).result()
    before = (home / "weir.db").read_bytes()
    kept_files = [restore(home, None, file)[1] for _ in range(3)]
    assert [path and path.name for path in kept_files] == [
        "weir.db.replaced",
        "weir.db.replaced-2",
        "weir.db.replaced-3",
    ]
    assert (home / "weir.db.replaced").read_bytes() == before


def test_backup_of_an_open_store_is_whole_and_comes_back(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    with opened(home) as store:
        store.workloads.submit(submitted("kept")).result()
        _, text = store.tokens.make("mia", "member", ["vision"])
        contents = backup(home, None, file)
        assert (contents.id, contents.workloads, contents.tokens) == (store.pool_id, 1, 1)
        store.workloads.submit(submitted("later")).result()
        (home / "pods" / "9").mkdir(parents=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("backup")] == ["backup"]
    with pytest.raises(StoreFailed, match="there already"):
        backup(home, None, file)
    restore(home, None, file)
    assert (home / "weir.db.replaced").exists()
    with opened(home) as store:
        assert store.workloads.newest("later") is None
        assert store.tokens.with_hash(token_hash(text)) is not None
        assert store.has_leftovers
        assert store.workloads.submit(submitted("next")).result().launch.uid == 10
        assert stat.S_IMODE((home / "weir.db").stat().st_mode) == 0o600
    restore(tmp_path / "new home", None, file)
    with opened(tmp_path / "new home") as store:
        assert store.pool_id == contents.id


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_backup_is_made_of_a_disk_that_has_become_read_only(tmp_path: Path) -> None:
    home, disk, file = tmp_path / "home", tmp_path / "disk", tmp_path / "backup"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=False).returncode:
        pytest.skip("this sandbox mounts nothing")
    try:
        with opened(home) as store:
            store.workloads.submit(submitted("kept")).result()
            assert (home / "weir.db-wal").stat().st_size
            for name in ("weir.db", "weir.db-wal"):  # as a killed server leaves them
                shutil.copy(home / name, disk / name)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert backup(disk, None, file).workloads == 1
        with pytest.raises(StoreFailed, match=r"to .*/disk/here: [Rr]ead-only file system"):
            backup(disk, None, disk / "here")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("backup")] == ["backup"]
    restore(tmp_path / "new", None, file)
    with opened(tmp_path / "new") as store:
        assert store.workloads.newest("kept") is not None


def test_restore_takes_sound_backups_of_the_same_pool_only(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    used(home)
    used(tmp_path / "other")
    backup(tmp_path / "other", None, file)
    before = (home / "weir.db").read_bytes()
    with pytest.raises(StoreFailed, match="is a backup of pool"):
        restore(home, None, file)
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2 :] = b"x" * (len(damaged) - len(damaged) // 2)
    (tmp_path / "damaged").write_bytes(damaged)
    (tmp_path / "letter").write_text("This is a letter. " * 500)
    sqlite3.connect(tmp_path / "empty").close()
    for name in ("damaged", "letter", "empty", "missing"):
        with pytest.raises(StoreFailed) as refused:
            restore(home, None, tmp_path / name)
        assert "\n" not in str(refused.value)
    assert (home / "weir.db").read_bytes() == before
    assert not (home / "weir.db.new").exists()
    with opened(home) as store:
        assert store.workloads.newest("train") is not None


def test_details_of_ended_workloads_are_removed_from_the_file_too(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for name in ("old", "recent", "live"):
            made = submitted(name)
            store.workloads.submit(made, {"env": {"KEY": f"value-of-{name}"}}).result()
        store.journal.keep([end("old", 1_800_000_060.0)], {})
        store.journal.keep([end("recent", 1_900_000_000.0)], {})
        assert store.delete_launch_specs(1_850_000_000.0) == [1]
        assert store.delete_launch_specs(1_850_000_000.0) == []
        old, recent = store.workloads.newest("old"), store.workloads.newest("recent")
        assert old is not None
        assert recent is not None
        assert (old.record.launch.command, old.record.launch.environment, dict(old.asked)) == (
            (),
            (),
            {},
        )
        assert recent.record.launch.command == ("python", "train.py")
        assert store.workloads.newest("live") is not None
    written = (tmp_path / "weir.db").read_bytes()
    assert b"value-of-old" not in written
    assert b"value-of-live" in written
