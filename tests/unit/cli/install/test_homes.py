"""Homes of installed pools: directories that root may take over, and those that root may delete."""

from pathlib import Path

import pytest
from tests.unit.cli.fake_host import FakeHost, files_of

from weir.cli.install import command
from weir.cli.install.homes import check_new_home, check_removed_home
from weir.cli.install.host import InstallFailed
from weir.cli.install.settings import InstallSettings

HOME = Path("/data/shared")


class TestNewHome:
    @pytest.fixture
    def place(self, host: FakeHost) -> Path:
        return host.path(HOME)

    def test_directory_with_files_of_others_is_refused(self, host: FakeHost, place: Path) -> None:
        place.mkdir(parents=True)
        (place / "thesis.txt").write_text("text")
        with pytest.raises(InstallFailed, match=r"contains files of others, such as 'thesis\.txt'"):
            check_new_home(HOME, host)

    def test_link_is_refused(self, host: FakeHost, place: Path) -> None:
        place.parent.mkdir(parents=True)
        place.symlink_to(place.parent)
        with pytest.raises(InstallFailed, match="is a link"):
            check_new_home(HOME, host)

    def test_state_of_a_kubelet_is_refused(self, host: FakeHost, place: Path) -> None:
        for name in ("pods", "plugins", "pki"):
            (place / name).mkdir(parents=True)
        with pytest.raises(InstallFailed, match="contains files of others"):
            check_new_home(HOME, host)

    @pytest.mark.parametrize(
        "names",
        [None, (), ("lost+found",), ("pods", "weir.db", "notes"), ("checkpoints", "jobs", "notes", "pods")],
    )
    def test_new_directory_new_disk_and_home_of_a_pool_are_taken(
        self, host: FakeHost, place: Path, names: tuple[str, ...] | None
    ) -> None:
        if names is not None:
            place.mkdir(parents=True)
        for name in names or ():
            (place / name).mkdir()
        check_new_home(HOME, host)

    def test_installation_refuses_it_before_any_change(
        self, host: FakeHost, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command, "why_unsafe", lambda: None)
        place.mkdir(parents=True)
        (place / "thesis.txt").write_text("text")
        with pytest.raises(InstallFailed, match="contains files of others"):
            command.planned(InstallSettings(home=HOME), host)
        assert set(files_of(host)) == {f"{HOME}/thesis.txt"}


class TestRemovedHome:
    @pytest.mark.parametrize("found", ["link", "files", "kubelet"])
    def test_only_a_home_of_a_pool_is_deleted(self, tmp_path: Path, found: str) -> None:
        home = tmp_path / "home"
        if found == "link":
            (tmp_path / "other").mkdir()
            (tmp_path / "other" / "weir.db").touch()
            home.symlink_to(tmp_path / "other")
        elif found == "kubelet":
            (home / "pods").mkdir(parents=True)
            (home / "pki").mkdir()
        else:
            home.mkdir()
            (home / "thesis").write_text("text")
        with pytest.raises(InstallFailed):
            check_removed_home(home)
