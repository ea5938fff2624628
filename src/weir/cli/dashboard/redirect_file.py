"""Private file that leads a browser to a link: everyone on the machine can read arguments of programs."""

import html
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from weir.client.logins import directory as state_directory

_PREFIX, _SUFFIX = "open-", ".html"
_AGE_S_MAX = 120.0
"""Age at which a file is removed; its link has worked or has ended."""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<title>Weir</title><meta http-equiv="refresh" content="0; url={link}"><p><a href="{link}">Go on</a></p></html>
"""


def written(link: str) -> str:
    """Write a page that leads to a link, readable for its owner only; return its address, `file://...`.

    Raises:
        OSError: the page can't be written.
    """
    folder = state_directory() / "links"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_old(folder)
    path = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(_PAGE.format(link=html.escape(link)))
    return path.as_uri()


def _remove_old(folder: Path) -> None:
    """Remove files of earlier links."""
    now_s = time.time()
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            if not 0 <= now_s - path.lstat().st_mtime < _AGE_S_MAX:
                path.unlink()
