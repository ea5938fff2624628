"""The address of the pool, where no pool runs."""

import socket
from pathlib import Path

import pytest

from weir import Pool
from weir.client import address
from weir.client.errors import Unreachable


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without pools, in a directory."""
    for name in (address.URL, address.TOKEN, address.HOME):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(address, "MACHINE", tmp_path / "run")
    monkeypatch.setattr(address, "INSTALLED", tmp_path / "install.json")
    return tmp_path


def test_without_any_pool_a_user_may_start_one() -> None:
    with pytest.raises(Unreachable, match=r"No pool runs in .* start one with `weir up`"):
        address.find()


def test_a_stopped_pool_of_the_machine_is_started_by_its_administrator(machine: Path) -> None:
    (machine / "install.json").touch()
    with pytest.raises(Unreachable, match="is stopped: ask its administrator to start it"):
        address.find()


@pytest.mark.parametrize(
    ("systemd", "command"), [(True, "systemctl start weir"), (False, "`sudo weir install` prints")]
)
def test_a_stopped_pool_is_started_with_the_command_of_its_machine(
    *, systemd: bool, command: str, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "SYSTEMD", machine / "systemd")
    if systemd:
        (machine / "systemd").mkdir()
    (machine / "install.json").touch()
    with pytest.raises(Unreachable, match=command):
        address.find()


@pytest.mark.parametrize(
    ("token", "fault"), [("abc…", r"'\u2026'"), ("abc\ndef", r"'\n'"), ("a\x00b", r"'\x00'")]
)
def test_token_that_no_request_can_carry_is_refused_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch, token: str, fault: str
) -> None:
    sentence = f"has {fault}: write the token as `weir token create` printed it."
    with pytest.raises(Unreachable) as refused:
        address.find("http://127.0.0.1:9", token)
    assert str(refused.value) == f"The token {sentence}"
    if "\0" not in token:  # no environment takes it
        monkeypatch.setenv("WEIR_TOKEN", token)
        with pytest.raises(Unreachable) as refused:
            address.find("http://127.0.0.1:9")
        assert str(refused.value) == f"WEIR_TOKEN {sentence}"


@pytest.mark.parametrize("url", ["http://\udcff/", "http://a\x00b/", "ftp://host"])
def test_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(Unreachable, match="is not the URL of a pool; write one such as"):
        address.find(url)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("token", b"\xff\xfe" * 20, "token is damaged: restart the pool with `weir up`."),
        ("token", b"abc\ndef" * 9, "token is damaged: restart the pool with `weir up`."),
        ("server.json", b"[" * 100_000, "server.json can't be read: restart the pool with `weir up`."),
    ],
)
def test_damaged_file_of_a_home_is_named(machine: Path, name: str, content: bytes, sentence: str) -> None:
    own = machine / "home" / ".weir"
    own.mkdir(parents=True)
    (own / "server.json").write_text('{"pid": 1, "url": "http://127.0.0.1:9", "socket": null}')
    (own / "token").write_text("weir_token")
    (own / name).write_bytes(content)
    with pytest.raises(Unreachable) as refused:
        address.find()
    assert str(refused.value).endswith(sentence)


def test_a_home_that_is_named_has_nothing_to_do_with_the_pool_of_the_machine(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "install.json").touch()
    monkeypatch.setenv(address.HOME, str(machine / "other"))
    with pytest.raises(Unreachable, match=r"No pool runs in .*other"):
        address.find()


def test_a_personal_pool_that_has_ended_does_not_hide_the_pool_of_the_machine(machine: Path) -> None:
    """Its file stays after a crash of the machine, and comes before the pool of the machine."""
    own = machine / "home" / ".weir"
    own.mkdir(parents=True)
    (own / "token").write_text("weir_token")
    (own / "server.json").write_text('{"pid": 1, "url": "http://127.0.0.1:9", "socket": "weir.sock"}')
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(own / "weir.sock"))
    (machine / "install.json").touch()
    with Pool() as pool, pytest.raises(Unreachable, match=f"installed here, delete {own}/server.json"):
        pool.status()
