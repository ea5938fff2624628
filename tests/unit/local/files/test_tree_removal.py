"""Deletion of trees that jobs made to stay."""

import os
import pwd
import resource
from pathlib import Path

import pytest

from weir.local.files.tree_removal import remove_path
from weir.local.node.accounts import Account, AccountRules
from weir.local.node.directories import make_for, prepare_home, remove
from weir.local.node.forked import fork, wait_for
from weir.local.records.state_dir import StateDir

DEPTH = 3000
_USER = 4321


def nest(top: Path, depth: int = DEPTH) -> None:
    directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=directory)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
        os.close(directory)
        directory = below
    os.close(directory)


def test_deep_trees_are_deleted_with_few_open_files(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in ("a", "b"):
        (top / name).mkdir(parents=True)
        nest(top / name)

    def work() -> None:
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # those of tests before it count too
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        remove_path(str(top))

    assert wait_for(fork(work))
    assert not top.exists()


def test_links_are_deleted_and_not_followed(tmp_path: Path) -> None:
    kept, top = tmp_path / "kept", tmp_path / "top"
    for each in (kept, top):
        each.mkdir()
    (kept / "file").touch()
    (top / "link").symlink_to(kept)
    (tmp_path / "other").symlink_to(kept)
    remove_path(str(tmp_path / "other"))
    remove_path(str(top))
    assert (kept / "file").exists()
    assert not top.exists()


def test_a_deep_tree_of_a_job_ends_no_retention(tmp_path: Path) -> None:
    home = StateDir(tmp_path)
    for path in (tmp_path / "jobs" / "7" / "1-0-0", tmp_path / "checkpoints" / "7"):
        path.mkdir(parents=True)
        nest(path)
    home.forget(7)
    home.delete_checkpoints(7)
    assert not (tmp_path / "jobs" / "7").exists()
    assert not (tmp_path / "checkpoints" / "7").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.parametrize("kind", ["storage of a container", "closed", "deep"])
def test_directories_of_a_user_are_deleted_whatever_they_made_of_them(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    for each in (home, home.parent):  # of root alone
        each.chmod(0o755)
    account = Account("a user", _USER, _USER, ())
    places = prepare_home(str(home), pwd.getpwuid(0).pw_gid)
    own = home / "jobs" / "7" / "1-0-0"
    try:
        make_for(places, "7/1-0-0", account)
        directory = os.open(own, os.O_RDONLY | os.O_DIRECTORY)

        def fill() -> None:
            os.fchdir(directory)
            os.setresgid(_USER, _USER, _USER)
            os.setresuid(_USER, _USER, _USER)
            work = Path("container/storage/overlay/x/work")
            if kind == "storage of a container":
                (work / "work").mkdir(parents=True)
                (work / "work").chmod(0)
                work.chmod(0o500)
            elif kind == "closed":
                Path("file").touch()
                Path().chmod(0)
            else:
                nest(Path())

        assert wait_for(fork(fill))
        os.close(directory)
        remove(places, 7, AccountRules(1000, 0), checkpoints=False)
        assert not own.exists()
    finally:
        os.close(places.jobs)
        os.close(places.checkpoints)


def test_a_link_is_deleted_and_what_it_leads_to_keeps_its_mode(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    kept.chmod(0o750)
    link = tmp_path / "link"
    link.symlink_to(kept)
    remove_path(str(link))
    assert not link.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o750


def test_a_directory_that_becomes_a_link_gives_no_rights_to_what_it_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    kept.chmod(0o750)
    (tmp_path / "changing").mkdir()
    unlink = os.unlink

    def changed(name: str, *, dir_fd: int) -> None:
        monkeypatch.setattr(os, "unlink", unlink)
        (tmp_path / "changing").rmdir()
        (tmp_path / "changing").symlink_to(kept)
        raise IsADirectoryError

    monkeypatch.setattr(os, "unlink", changed)
    remove_path(str(tmp_path / "changing"))
    assert kept.stat().st_mode & 0o777 == 0o750
