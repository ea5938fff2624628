"""Files of a session in a directory that its container may change at any time."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.cli.sessions import ssh_files
from weir.cli.sessions.pod_entry import EntryRefused

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
    client = contents(ssh_files.client_files() / "weir-dev")
    assert client[ssh_files.KNOWN_HOSTS].split()[1:] == made[f"{ssh_files.HOST_KEY}.pub"].split()[:2]
    assert client[f"{ssh_files.CLIENT_KEY}.pub"] == made[f"{ssh_files.CLIENT_KEY}.pub"]
    assert client.keys() - made.keys() == {ssh_files.CLIENT_KEY, ssh_files.KNOWN_HOSTS, "pod"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in directory.iterdir()} == {0o600}
    assert [each.name for each in own.iterdir()] == ["session"]
    state = {each.name for each in ssh_files.client_files().parent.iterdir()}
    assert state == {"sessions", "sessions.lock"}
    ours = ssh_files.client_files() / "weir-dev"
    assert stat.S_IMODE(ours.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in ours.iterdir()} == {0o600}


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
    mkdir = os.mkdir

    def changed(name: str, mode: int, **directories: int) -> None:
        mkdir(name, mode, **directories)
        if name == "session":
            (own / name).rename(own / "moved")
            (own / name).symlink_to(private)

    monkeypatch.setattr(os, "mkdir", changed)
    with pytest.raises(EntryRefused):
        ssh_files.make(str(own), "dev", {}, KEY)
    assert contents(private) == before


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [os.mkfifo, _huge, _link])
@pytest.mark.parametrize("name", ["client_key.pub", "host_key", "host_key.pub", "known_hosts", "client_key"])
def test_the_client_reads_no_file_that_a_container_made(
    own: Path, name: str, make: Callable[[Path], None]
) -> None:
    directory = ssh_files.make(str(own), "dev", {})
    ours = ssh_files.client_files() / "weir-dev"
    before = contents(ours)
    (directory / name).unlink(missing_ok=True)
    make(directory / name)
    ssh_files.make(str(own), "dev", {})
    after = contents(ours)
    assert {each.lstat().st_mode for each in ours.iterdir()} == {stat.S_IFREG | 0o600}
    assert after["client_key"] == before["client_key"], "ssh may have read it already"
    assert (directory / "client_key.pub").read_text() == after["client_key.pub"]
    assert after["known_hosts"].split()[1:] == (directory / "host_key.pub").read_text().split()[:2]


def test_a_directory_in_the_place_of_a_key_is_named_in_a_sentence(own: Path) -> None:
    directory = ssh_files.make(str(own), "dev", {})
    (directory / "client_key.pub").unlink()
    (directory / "client_key.pub").mkdir()
    with pytest.raises(EntryRefused, match="Is a directory"):
        ssh_files.make(str(own), "dev", {})


def test_the_files_of_a_client_go_with_its_session(own: Path) -> None:
    directory = ssh_files.make(str(own), "dev", {})
    ssh_files.forget_ended()
    assert [each.name for each in ssh_files.client_files().iterdir()] == ["weir-dev"]
    shutil.rmtree(directory)
    ssh_files.forget_ended()
    assert not list(ssh_files.client_files().iterdir())


def test_a_new_session_of_the_same_name_has_another_key_of_its_host(own: Path) -> None:
    directory = ssh_files.make(str(own), "dev", {})
    ours = ssh_files.client_files() / "weir-dev"
    before = contents(ours)
    shutil.rmtree(directory)
    ssh_files.make(str(own), "dev", {})
    after = contents(ours)
    assert after["client_key"] == before["client_key"], "ssh may have read it already"
    assert after["known_hosts"] != before["known_hosts"]
