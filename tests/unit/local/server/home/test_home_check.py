"""A home that other users could have changed isn't used, and the sentence names the file and the remedy."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.local.files.disk_reserve import DiskReserve
from weir.local.server.home import home_check, server_file
from weir.local.server.home.home_check import HomeRefused, check_home
from weir.local.server.main import run
from weir.local.server.settings.server_settings import ServerSettings
from weir.store.store import Store


def replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink(missing_ok=True)
    make(path)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "home for all": (lambda home: home.chmod(0o777), "chmod go-w"),
    "home for a group": (lambda home: home.chmod(0o770), "chmod go-w"),
    "records for all": (lambda home: (home / "pods").chmod(0o777), "pods"),
    "secrets for all": (lambda home: (home / "secrets").chmod(0o733), "secrets"),
    "file in place of records": (lambda home: replace_directory(home / "pods", Path.touch), "directory"),
    "dangling link of jobs": (
        lambda home: replace_directory(home / "jobs", lambda path: path.symlink_to("none")),
        "doesn't exist",
    ),
    "directory of the database": (lambda home: replace(home / "weir.db", Path.mkdir), "weir.db"),
    "FIFO of the database": (lambda home: replace(home / "weir.db", os.mkfifo), "weir.db"),
    "dangling link of the database": (
        lambda home: replace(home / "weir.db", lambda path: path.symlink_to("none")),
        "doesn't exist",
    ),
    "link of the journal": (lambda home: (home / "weir.db-wal").symlink_to("elsewhere"), "weir.db-wal"),
    "link of the lock": (
        lambda home: replace(home / "weir.lock", lambda path: path.symlink_to("elsewhere")),
        "weir.lock",
    ),
    "link of the identity": (
        lambda home: replace(home / "pool.json", lambda path: path.symlink_to("elsewhere")),
        "pool.json",
    ),
}


def replace_directory(path: Path, make: Callable[[Path], object]) -> None:
    path.rmdir()
    make(path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    Store(None, path).close()
    for name in ("pods", "jobs", "checkpoints", "secrets"):
        (path / name).mkdir(mode=0o700)
    check_home(path, installed=False)
    return path


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_unsafe_home_is_refused_with_one_sentence(
    home: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    act, named = DAMAGES[damage]
    act(home)
    mask = os.umask(0o022)
    try:
        assert run(ServerSettings(home=home, port=0, virtual_gpus=1, log_level="warning")) == 1
    finally:
        os.umask(mask)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"weir: Can't start: {'' if 'for' not in damage else 'other users can write to '}")
    assert str(home) in line
    assert named in line
    assert not list(home.parent.glob("elsewhere"))


@pytest.mark.parametrize("name", ["", "pods", "secrets", "weir.db", "token"])
def test_what_belongs_to_someone_else_is_refused(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "token").write_text("x" * 43)
    others, stat_of = home / name, home_check.os.stat_result
    check = home_check._check_owner

    def owner(path: Path, status: os.stat_result, *, home: bool = False) -> None:
        values = list(status)
        values[stat.ST_UID] = os.geteuid() + (path == others)
        check(path, stat_of(values), home=home)

    monkeypatch.setattr(home_check, "_check_owner", owner)
    with pytest.raises(HomeRefused, match=f"{others} belongs to .* chown "):
        check_home(home, installed=False)


def test_files_become_private_and_writable(home: Path) -> None:
    (home / "weir.db").chmod(0o466)
    check_home(home, installed=False)
    assert stat.S_IMODE((home / "weir.db").stat().st_mode) == 0o600


def test_a_database_may_be_a_link_to_another_disk(home: Path, tmp_path: Path) -> None:
    (home / "weir.db").rename(tmp_path / "moved.db")
    (home / "weir.db").symlink_to(tmp_path / "moved.db")
    check_home(home, installed=False)
    Store(None, home).close()


def test_an_installed_home_has_the_modes_of_the_node_process(home: Path) -> None:
    home.chmod(0o1771)
    (home / "jobs").chmod(0o751)
    check_home(home, installed=True)


def test_new_files_go_through_no_link(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("important")
    for name in ("reserve.new", "server.json.new"):
        (home / name).symlink_to(other)
    assert DiskReserve(home).restore()
    server_file.write(home, "http://127.0.0.1:1", has_socket=True)
    assert other.read_text() == "important"
    assert not (home / "server.json").is_symlink()
