"""Logins of this user at pools with OpenID Connect, in a file that only they can read.

This module uses the standard library only, because completion runs while a person types.
"""

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from weir.client.errors import Unreachable

FILE = "logins.json"
_FILE_BYTES_MAX = 1 << 20
_LOCK = "logins.lock"


@dataclass(frozen=True, slots=True)
class Login:
    """Tokens of a login, and the address of their renewal.

    Attributes:
        issuer: the identity provider.
        client_id: the client of `weir login` there.
        token: the ID token, which goes to the pool.
        refresh_token: goes to the provider alone; empty if there is none.
        expires_s: time at which the ID token expires, by the wall clock.
    """

    issuer: str
    client_id: str
    token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_s: float


def directory() -> Path:
    """Return the directory of the file: of the user's state."""
    named = os.environ.get("XDG_STATE_HOME", "")
    state = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    return state / "weir"


def origin_of(url: str) -> str:
    """Return the origin of a pool's address; a login is valid for this origin only."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"


def login_of(url: str) -> Login | None:
    """Return the login at a pool; None if there is none.

    Raises:
        Unreachable: the file belongs to someone else, or others can read it.
    """
    return _read().get(origin_of(url)) if url.startswith("https:") else None


def keep(url: str, login: Login) -> None:
    """Keep a login in place of the one before."""
    with locked():
        replace_locked(url, login)


def replace_locked(url: str, login: Login) -> None:
    """Keep a login, while the file is locked."""
    _write({**_read(), origin_of(url): login})


def forget(url: str) -> Login | None:
    """Remove the login at a pool, and return it; None if there was none."""
    with locked():
        logins = _read()
        login = logins.pop(origin_of(url), None)
        if login is not None:
            _write(logins)
        return login


@contextmanager
def locked() -> Iterator[None]:
    """Keep other commands of this user from changing the file until the block ends."""
    home = directory()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _read() -> dict[str, Login]:
    path = directory() / FILE
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Unreachable(f"{path} can't be read ({error.strerror}): log in again.") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise Unreachable(f"{path} must be a file of yours with mode 0600: delete it, and log in again.")
        written = json.loads(os.read(file, _FILE_BYTES_MAX))
        return {str(url): _login(fields) for url, fields in written.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}  # unknown version or incomplete file: the next login replaces it
    finally:
        os.close(file)


def _login(fields: dict[str, object]) -> Login:
    return Login(
        issuer=str(fields["issuer"]),
        client_id=str(fields["client_id"]),
        token=str(fields["token"]),
        refresh_token=str(fields["refresh_token"]),
        expires_s=float(str(fields["expires_s"])),
    )


def _write(logins: dict[str, Login]) -> None:
    home = directory()
    beside = home / f"{FILE}.new"
    with suppress(FileNotFoundError):
        beside.unlink()
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as writing:
        json.dump({url: asdict(login) for url, login in logins.items()}, writing)
        writing.flush()
        os.fsync(writing.fileno())
    beside.replace(home / FILE)
