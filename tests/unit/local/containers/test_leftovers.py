"""Files of a container that are deleted once its pod is over."""

import os
from pathlib import Path

import pytest

from weir.local.containers import leftovers


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "container").mkdir()
    return tmp_path


def _remove(own: Path) -> None:
    directory = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
    try:
        leftovers.remove(directory)
    finally:
        os.close(directory)


def test_everything_is_deleted_and_links_are_not_followed(
    own: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "kept").touch()
    (own / "container" / "link").symlink_to(other)
    deep = own / "container" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    os.mkfifo(deep / "fifo")
    (own / "container" / "a").chmod(0)
    (own / "log").touch()
    _remove(own)
    assert [path.name for path in own.iterdir()] == ["log"]
    assert (other / "kept").exists()


def test_link_in_the_place_of_the_directory_is_not_followed(
    own: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "kept").touch()
    (own / "container").rmdir()
    (own / "container").symlink_to(other)
    _remove(own)
    assert (other / "kept").exists()
    _remove(other)  # it has none


def test_directories_nested_deeper_than_paths_can_be_are_deleted(own: Path) -> None:
    at = os.open(own / "container", os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(600):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    _remove(own)
    assert not (own / "container").exists()


def test_problem_comes_back_and_nothing_else_is_read(own: Path) -> None:
    leftovers.write_problem(str(own), "It can't be fetched.")
    directory = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert leftovers.problem(directory) == "It can't be fetched."
        for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd")):
            _remove(own)
            (own / "container").mkdir()
            make(own / "container" / "problem")
            assert leftovers.problem(directory) == ""
        _remove(own)
        assert leftovers.problem(directory) == ""
    finally:
        os.close(directory)


def test_files_of_earlier_starts_of_the_same_pod_are_deleted(tmp_path: Path) -> None:
    for name in ("1-0-0", "2-0-0", "3-0-0", "2-0-1", "4-0-0"):
        (tmp_path / name / "container" / "storage").mkdir(parents=True)
    leftovers.remove_earlier(str(tmp_path / "3-0-0"))
    assert sorted(path.parent.name for path in tmp_path.glob("*/container")) == ["2-0-1", "3-0-0", "4-0-0"]
