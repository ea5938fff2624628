"""Root makes and restores backups of an installed pool, in whose home the server's user may make files."""

import os
import pwd
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .shared_pool import ROOT, SharedPool, until

People = list[pwd.struct_passwd]


@pytest.fixture
def stopped(pool: SharedPool) -> Iterator[SharedPool]:
    """The pool without a server; it begins again afterwards."""
    pool.process.terminate()
    pool.process.wait(120)
    yield pool
    pool.begin()


def as_root(pool: SharedPool, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as `sudo WEIR_HOME=... weir` does."""
    environment = {"WEIR_HOME": str(pool.home), "PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    command = [pool.python, "-I", "-m", "weir", *words]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)


@pytest.fixture
def private(places: Path) -> Iterator[Path]:
    """A directory of root's that no one else enters."""
    made = places / "of-root"
    made.mkdir(mode=0o700, exist_ok=True)
    yield made
    for each in made.iterdir():
        each.unlink()
    made.rmdir()


def test_pool_begins_with_a_backup_that_root_restored(
    pool: SharedPool, private: Path, unix_users: People
) -> None:
    pool.submit(unix_users[0], "kept", "true", gpus=0)
    pool.wait("kept", "succeeded")
    made = as_root(pool, "backup", str(private / "pool.db"))
    assert made.returncode == 0, made.stderr
    status = (private / "pool.db").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o600)
    again = as_root(pool, "backup", str(private / "pool.db"))
    assert f"{private / 'pool.db'} is there already" in again.stderr
    running = as_root(pool, "restore", str(private / "pool.db"))
    assert "Another server has the database" in running.stderr
    assert sorted(each.name for each in private.iterdir()) == ["pool.db"]

    pool.process.terminate()
    pool.process.wait(120)
    restored = as_root(pool, "restore", str(private / "pool.db"))
    assert restored.returncode == 0, restored.stderr
    assert {each.lstat().st_uid for each in pool.home.glob("weir.db*")} == {pool.server_user.pw_uid}
    pool.begin()
    assert pool.row("kept")["status"] == "succeeded"
    (line,) = [
        each
        for each in pool.ask(ROOT, "GET", "/api/v1/audit?limit=1000")[1]["items"]
        if "restored" in str(each)
    ]
    assert line["user"] == "root"


@pytest.mark.parametrize("name", ["pool.json.new", "weir.db.new", "weir.db.replaced", "audit.jsonl"])
def test_root_writes_through_no_link_of_the_server(stopped: SharedPool, private: Path, name: str) -> None:
    server, precious, place = stopped.server_user, private / "precious", stopped.home / name
    precious.write_text("precious")
    made = as_root(stopped, "backup", str(private / "pool.db"))
    assert made.returncode == 0, made.stderr
    kept = place.read_bytes() if place.is_file() else None
    link = ["ln", "-sfn", str(precious), str(place)]
    subprocess.run(link, user=server.pw_uid, group=server.pw_gid, check=True)
    restored = as_root(stopped, "restore", str(private / "pool.db"))
    assert precious.read_text() == "precious", restored.stdout
    assert restored.returncode == 0, restored.stderr
    if place.is_symlink():
        place.unlink()
        if kept is not None:
            place.write_bytes(kept)
            os.chown(place, server.pw_uid, server.pw_gid)


def test_root_gets_no_copy_of_a_file_that_the_server_cant_read(stopped: SharedPool, private: Path) -> None:
    server, database = stopped.server_user, stopped.home / "weir.db"
    secret = private / "secret.db"
    made = as_root(stopped, "backup", str(secret))
    assert made.returncode == 0, made.stderr
    database.rename(database.with_suffix(".kept"))
    link = ["ln", "-s", str(secret), str(database)]
    subprocess.run(link, user=server.pw_uid, group=server.pw_gid, check=True)
    refused = as_root(stopped, "backup", str(private / "copy.db"))
    assert refused.returncode == 1, refused.stdout
    assert not (private / "copy.db").exists()
    database.unlink()
    database.with_suffix(".kept").rename(database)


def test_mistakes_name_the_files_of_the_administrator(stopped: SharedPool, private: Path) -> None:
    (private / "empty.db").write_text("")
    for name, sentence in (("empty.db", "It is not a backup of a pool"), ("none.db", f"no file {private}")):
        refused = as_root(stopped, "restore", str(private / name))
        assert refused.returncode == 1
        assert sentence in refused.stderr
        assert ".restore-" not in refused.stderr
    until(lambda: not list(stopped.home.glob(".*-*")))
