"""Where the pool is and who asks: from the environment, else from what a server on this machine wrote.

Standard library alone: completion uses it while a person types.
"""

import ipaddress
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from weir.client.errors import Unreachable
from weir.client.listener import SERVER_USER, expected_uids, user_name

URL, TOKEN, HOME = "WEIR_URL", "WEIR_TOKEN", "WEIR_HOME"
CLUSTER = "kube:"
"""A context of the kubeconfig, or nothing for the current one, in place of a URL."""
NO_CLUSTER = "{} is a cluster, which `weir` on the command line asks; programs ask its API for Workloads."
SERVER_FILE, TOKEN_FILE, SOCKET_FILE = "server.json", "token", "weir.sock"
ELSEWHERE = (
    f"set {URL} and {TOKEN} to use your team's (its administrator makes a token with `weir token create`)"
)
_FILE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """A pool's URL, the token to ask with, and the users its server may run as.

    `home` is set where the pool of this machine is asked through the socket in its home.
    """

    url: str
    token: str | None = field(repr=False, default=None)
    uids: frozenset[int] | None = None  # None: any
    home: Path | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether it is a cluster of a kubeconfig, which the command line asks by itself."""
        return self.url.startswith(CLUSTER)

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this very machine: no proxy has a part in that."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def home() -> Path:
    """The directory of the pool on this machine."""
    named = os.environ.get(HOME)
    return Path(named) if named else Path.home() / ".weir"


def find(url: str | None = None, token: str | None = None) -> Address:
    """The pool that is meant: the arguments, else the environment, else the one on this machine.

    Raises:
        Unreachable: none is known, or what names it can't be used.
    """
    named = url or os.environ.get(URL)
    token = token or os.environ.get(TOKEN) or None
    if named:
        checked = _checked(named)
        return Address(checked, token, None if checked.startswith(CLUSTER) else expected_uids())
    at = home()
    with _opened(at) as directory:
        owner = _owner(directory, at)
        url, has_socket = _place(directory, at, owner)
        if token is None:
            token = _read(directory, TOKEN_FILE, at, owner).strip() or None
    return Address(_checked(url), token, frozenset({owner}), at if has_socket else None)


@contextmanager
def open_socket_path(at: Path) -> Iterator[str]:
    """Yield a path of the socket in a home. The path is short, and leads to this home whatever is renamed.

    Raises:
        Unreachable: the home can't be opened.
    """
    with _opened(at) as directory:
        yield f"/proc/self/fd/{directory}/{SOCKET_FILE}"


@contextmanager
def _opened(at: Path) -> Iterator[int]:
    try:
        directory = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _none_here(at) from None
    except PermissionError:
        raise Unreachable(f"{at} belongs to someone else: {ELSEWHERE}.") from None
    except OSError as error:
        raise Unreachable(f"{at} can't be opened ({error.strerror}): name another with {HOME}.") from None
    try:
        yield directory
    finally:
        os.close(directory)


def _none_here(at: Path) -> Unreachable:
    return Unreachable(f"No pool runs in {at}: {ELSEWHERE}, or start one with `weir up`.")


def _owner(directory: int, at: Path) -> int:
    """Return the owner of a home, if that is a user a pool may run as."""
    owner = os.fstat(directory).st_uid
    expected = expected_uids()
    if owner and expected is not None and owner not in expected:
        name = user_name(owner)
        raise Unreachable(
            f"{at} belongs to user {name}: {ELSEWHERE}; if {name} runs your pool, set {SERVER_USER}={name}."
        )
    return owner


def _place(directory: int, at: Path, owner: int) -> tuple[str, bool]:
    """Return the URL that the server of a home wrote down, and if there is a socket."""
    try:
        written = json.loads(_read(directory, SERVER_FILE, at, owner))
        return str(written["url"]), written.get("socket") == SOCKET_FILE
    except (ValueError, TypeError, KeyError) as error:
        raise Unreachable(f"{at / SERVER_FILE} can't be read: start the pool anew with `weir up`.") from error


def _read(directory: int, name: str, at: Path, owner: int) -> str:
    """Return the text of a file of a home. Files that others have put there don't count."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        if name == SERVER_FILE:
            raise _none_here(at) from None
        raise Unreachable(f"{at / name} can't be read: {ELSEWHERE}.") from None
    except OSError:
        raise Unreachable(f"{at / name} can't be read: {ELSEWHERE}.") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (owner, 0):
            name_of = user_name(found.st_uid)
            raise Unreachable(
                f"{at / name} is no file of the pool but of user {name_of}: delete it, and start `weir up`."
            )
        return os.read(file, _FILE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        os.close(file)


def _checked(url: str) -> str:
    if url.startswith(CLUSTER):
        return url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unreachable(f"{url} is no address of a pool: write one such as http://127.0.0.1:9347.")
    return url.rstrip("/")
