"""Resource limits of a login, as an administrator wrote them."""

import grp
import os
import pwd
import resource
from pathlib import Path

import pytest

from weir.local.starts.user_limits import _AT_START, user_rlimits

ME = pwd.getpwuid(os.getuid())
GROUP = grp.getgrgid(ME.pw_gid).gr_name
NOFILE, CORE, MEMLOCK = resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK


def limits(directory: Path, *files: str) -> dict[int, tuple[int, int]]:
    """Return the limits of this user by files: the first is limits.conf, the others are in limits.d."""
    (directory / "limits.d").mkdir(exist_ok=True)
    (directory / "limits.conf").write_text(files[0])
    for at, text in enumerate(files[1:]):
        (directory / "limits.d" / f"{at}.conf").write_text(text)
    return {number: (soft, hard) for number, soft, hard in user_rlimits(ME.pw_name, directory)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* - nofile 4096", {NOFILE: (4096, 4096)}),
        (f"{ME.pw_name} soft core unlimited\n* hard core unlimited", {CORE: (-1, -1)}),
        ("* - memlock 64", {MEMLOCK: (65536, 65536)}),
        (f"@{GROUP} - nofile 10\n* - nofile 20", {NOFILE: (10, 10)}),
        (f"* - nofile 20\n{ME.pw_name} - nofile 30\n@{GROUP} - nofile 10", {NOFILE: (30, 30)}),
        ("* - nofile 20\n* - nofile 30 # the last counts", {NOFILE: (30, 30)}),
        ("* hard nofile 20\n* soft nofile 99", {NOFILE: (20, 20)}),
        (f"{ME.pw_uid}: - nofile 7", {NOFILE: (7, 7)}),
        (f":{ME.pw_uid} - nofile 7", {NOFILE: (7, 7)}),
        (f"@:{ME.pw_gid} - nofile 7", {NOFILE: (7, 7)}),
        (f"{ME.pw_uid + 1}: - nofile 7", {}),
        (f"* - nofile 20\n{ME.pw_name} -", {}),
        ("nobody-here - nofile 20\n@no-such-group - nofile 20", {}),
        ("* - nofile many\n* - nofile -5\n* - nofile ٣\n* - maxlogins 3\n* never nofile 3\n* - nofile", {}),
        (f"* - memlock {10**17}", {MEMLOCK: (1 << 62, 1 << 62)}),
        ("", {}),
    ],
)
def test_the_closest_line_counts(tmp_path: Path, text: str, expected: dict[int, tuple[int, int]]) -> None:
    assert limits(tmp_path, text) == expected


def test_files_of_the_directory_follow_in_their_order(tmp_path: Path) -> None:
    assert limits(tmp_path, "* - nofile 1", "* - nofile 2", "* - nofile 3") == {NOFILE: (3, 3)}


def test_a_limit_that_only_one_line_sets_keeps_the_other(tmp_path: Path) -> None:
    soft, hard = _AT_START[NOFILE]
    assert limits(tmp_path, "* soft nofile 9") == {NOFILE: (9, hard)}
    assert limits(tmp_path, "* hard nofile 9") == {NOFILE: (9, 9)}
    assert limits(tmp_path, "* hard nofile unlimited") == {NOFILE: (soft, -1)}


def test_files_that_are_missing_or_no_text_set_nothing(tmp_path: Path) -> None:
    assert user_rlimits(ME.pw_name, tmp_path / "none") == ()
    (tmp_path / "limits.conf").write_bytes(b"\xff\xfe * - nofile 3\n\x00\n" + b"x" * 100_000)
    assert user_rlimits(ME.pw_name, tmp_path) == ()
    assert user_rlimits("no-such-user-here", tmp_path) == ()
