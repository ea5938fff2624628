"""Files of a session in a directory that its container may change at any time."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.cli.pod_entry import EntryRefused
from weir.cli.sessions import ssh_files

KEY, OTHER = (f"ssh-ed25519 {letter * 68}" for letter in "AB")
SECRET = "the user's own\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a pod, and set that of the user's state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    directory = tmp_path / "jobs" / "7" / "1-0-0"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Return a directory of the user outside of the pod."""
    directory = tmp_path / ".ssh"
    directory.mkdir()
    for name in (ssh_files.FURTHER_KEYS, ssh_files.HOST_KEY, ssh_files.SSHD_CONFIG):
        (directory / name).write_text(SECRET)
    return directory


def contents(directory: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in directory.iterdir()}


def test_files_are_made_once_and_keys_of_clients_are_added(own: Path) -> None:
    directory = ssh_files.make(str(own), "dev", {"A": "1"}, KEY)
    made = contents(directory)
    ssh_files.make(str(own), "dev", {"A": "2"}, OTHER)
    ssh_files.make(str(own), "dev", {"A": "2"}, OTHER)
    again = contents(directory)
    assert again.pop(ssh_files.FURTHER_KEYS) == f"{KEY}\n{OTHER}\n"
    assert 'SetEnv "A=2"\n' in again.pop(ssh_files.SSHD_CONFIG)
    assert again.items() <= made.items(), "the keys stay"
    assert made[ssh_files.KNOWN_HOSTS].split()[1:] == made[f"{ssh_files.HOST_KEY}.pub"].split()[:2]
    assert {stat.S_IMODE(each.stat().st_mode) for each in directory.iterdir()} == {0o600}
    assert [each.name for each in own.iterdir()] == ["session"]
    assert [each.name for each in ssh_files.links().parent.iterdir()] == ["sessions"]
    assert (ssh_files.links() / "weir-dev").resolve() == directory


def test_what_is_no_key_is_refused(own: Path) -> None:
    with pytest.raises(EntryRefused, match="--key isn't the public key"):
        ssh_files.make(str(own), "dev", {}, f"{KEY}\n{OTHER}")
    assert not list(own.iterdir())


def test_an_empty_directory_of_an_interrupted_command_is_used(own: Path) -> None:
    (own / "session").mkdir()
    assert (ssh_files.make(str(own), "dev", {}) / ssh_files.HOST_KEY).is_file()


def test_a_link_in_the_place_of_the_directory_is_not_followed(own: Path, private: Path) -> None:
    before = contents(private)
    (own / "session").symlink_to(private)
    with pytest.raises(EntryRefused, match="Not a directory"):
        ssh_files.make(str(own), "dev", {}, KEY)
    assert contents(private) == before


def test_a_link_in_the_place_of_the_pod_is_not_followed(own: Path, private: Path) -> None:
    before = contents(private)
    own.rmdir()
    own.symlink_to(private)
    with pytest.raises(EntryRefused):
        ssh_files.make(str(own), "dev", {}, KEY)
    assert contents(private) == before


def test_links_in_the_place_of_files_are_replaced_unread(own: Path, private: Path) -> None:
    directory = ssh_files.make(str(own), "dev", {})
    (private / ssh_files.FURTHER_KEYS).write_text(f"{OTHER}\n")
    before = contents(private)
    (directory / ssh_files.SSHD_CONFIG).unlink()
    for name in (ssh_files.FURTHER_KEYS, ssh_files.SSHD_CONFIG):
        (directory / name).symlink_to(private / name)
    ssh_files.make(str(own), "dev", {}, KEY)
    assert contents(private) == before
    assert (directory / ssh_files.FURTHER_KEYS).read_text() == f"{KEY}\n"
    assert not any(each.is_symlink() for each in directory.iterdir())


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("make", [os.mkfifo, _huge])
def test_a_file_of_another_kind_or_size_is_replaced_unread(own: Path, make: Callable[[Path], None]) -> None:
    directory = ssh_files.make(str(own), "dev", {})
    make(directory / ssh_files.FURTHER_KEYS)
    ssh_files.make(str(own), "dev", {}, KEY)
    assert (directory / ssh_files.FURTHER_KEYS).read_text() == f"{KEY}\n"


def test_a_directory_that_becomes_a_link_while_files_are_made_leads_nowhere(
    own: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(private)
    rename = os.rename

    def changed(name: str, to: str, **directories: int) -> None:
        rename(own / name, own / "moved")
        (own / name).symlink_to(private)
        rename(name, to, **directories)

    monkeypatch.setattr(os, "rename", changed)
    with pytest.raises(EntryRefused):
        ssh_files.make(str(own), "dev", {}, KEY)
    assert contents(private) == before
