"""The address of the pool, where no pool runs."""

from pathlib import Path

import pytest

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


def test_a_home_that_is_named_has_nothing_to_do_with_the_pool_of_the_machine(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "install.json").touch()
    monkeypatch.setenv(address.HOME, str(machine / "other"))
    with pytest.raises(Unreachable, match=r"No pool runs in .*other"):
        address.find()
