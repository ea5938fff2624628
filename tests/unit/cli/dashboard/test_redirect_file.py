"""Files that lead a browser to a link: only their owner reads them, and old ones are removed."""

import os
import stat
import sys
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from weir.cli.dashboard.command import open_in_browser
from weir.cli.dashboard.redirect_file import written

LINK = 'http://127.0.0.1:9348/sessions/notes/?weir-code=secret&a="><script>'


def test_a_browser_gets_a_private_file_and_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a b"))
    open_in_browser(LINK)
    open_in_browser("https://gpu1.example.org", is_secret=False)
    assert opened[1] == "https://gpu1.example.org"
    assert "secret" not in opened[0]
    path = Path(unquote(urlsplit(opened[0]).path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert "weir-code=secret&amp;a=&quot;&gt;&lt;script&gt;" in text


def test_old_files_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    old, ahead = (Path(urlsplit(written(LINK)).path) for _ in range(2))
    os.utime(old, (0, 0))
    os.utime(ahead, (1e10, 1e10))
    new = Path(urlsplit(written(LINK)).path)
    assert list(new.parent.iterdir()) == [new]


def test_a_link_is_left_to_the_person_if_no_file_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    (tmp_path / "file").touch()
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    open_in_browser(LINK)
    assert opened == []
