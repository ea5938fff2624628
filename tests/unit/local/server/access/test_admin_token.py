"""The administrator's token in the home: made once, and again if a crash or another program left no token."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.local.server.access.auth import admin_token

OTHERS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.write_bytes(b""),
    "part": lambda path: path.write_bytes(b"W8ZIhPXAe"),
    "zeros": lambda path: path.write_bytes(bytes(44)),
    "garbage": lambda path: path.write_bytes(b"\xe4\xff" * 40),
    "lines": lambda path: path.write_bytes(b"aaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbb"),
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to("elsewhere"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_token_is_replaced(tmp_path: Path, other: str) -> None:
    OTHERS[other](tmp_path / "token")
    (tmp_path / "elsewhere").write_text("x" * 43)
    made = admin_token(tmp_path)
    assert re.fullmatch(r"[\w-]{43}", made)
    assert admin_token(tmp_path) == made
    assert (tmp_path / "elsewhere").read_text() == "x" * 43
    assert (tmp_path / "token").lstat().st_mode & 0o777 == 0o600


def test_token_that_the_administrator_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-administrator-1\n")
    (tmp_path / "token").chmod(0o644)
    assert admin_token(tmp_path) == "of-the-administrator-1"
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


def test_directory_in_place_of_the_token_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir(mode=0o755)
    with pytest.raises(IsADirectoryError) as refused:
        admin_token(tmp_path)
    assert refused.value.filename == str(tmp_path / "token")
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o755
