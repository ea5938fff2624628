"""The address of the pool and the token: from the environment, else from files of a server on this machine.

$WEIR_URL (http, https, ssh or kube) and $WEIR_HOME come first. Then come a personal pool in the home and the
pool that is installed on the machine. The socket of that one needs no token: the kernel names the caller.

This module uses the standard library only, because completion runs while a person types.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from weir.api.loopback import is_loopback
from weir.client.errors import Unreachable
from weir.client.listener import SERVER_USER, expected_uids
from weir.client.ssh_tunnel import SCHEME, SshAddress, directory_of, parse
from weir.user_names import user_name

URL, TOKEN, HOME = "WEIR_URL", "WEIR_TOKEN", "WEIR_HOME"
CLUSTER = "kube:"
"""Marker of a cluster's address; an optional context of the kubeconfig follows it."""
NO_CLUSTER = "{} is a cluster, which `weir` on the command line asks; programs ask its API for Workloads."
SERVER_FILE, TOKEN_FILE, SOCKET_FILE = "server.json", "token", "weir.sock"
MACHINE = Path("/run/weir")
"""Directory of the socket of the pool that is installed here; it is gone while the service is stopped."""
INSTALLED = Path("/etc/weir/install.json")
"""Record of an installed pool, which everyone can read."""
SYSTEMD = Path("/run/systemd/system")
"""Directory that exists if systemd runs this machine."""
ELSEWHERE = (
    f"set {URL} and {TOKEN} to use your team's (its administrator makes a token with `weir token create`)"
)
_FILE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """A pool's URL, a token, and the users that its server may run as.

    `home` is set if requests go through the socket in the home of this machine's pool. It is the directory
    of the machine's socket for an installed pool. `ssh` is set for a pool on another machine; `home` is then
    the directory of the socket that ssh forwards.
    """

    url: str
    token: str | None = field(repr=False, default=None)
    uids: frozenset[int] | None = None  # None: any
    home: Path | None = None
    ssh: SshAddress | None = None

    @property
    def is_cluster(self) -> bool:
        """Return True for a cluster of a kubeconfig, which only the command line can use."""
        return self.url.startswith(CLUSTER)

    @property
    def context(self) -> str | None:
        """Return the context of a cluster's kubeconfig; None for the current one."""
        return self.url.partition(":")[2] or None

    @property
    def is_installed(self) -> bool:
        """Return True if the pool is installed on this machine for everyone."""
        return self.home == MACHINE

    @property
    def is_loopback(self) -> bool:
        """Return True if the pool is on this machine."""
        if self.ssh is not None:
            return False
        return is_loopback(urlsplit(self.url).hostname or "")


def home() -> Path:
    """Return the directory of the pool on this machine."""
    named = os.environ.get(HOME)
    return Path(named) if named else Path.home() / ".weir"


def find(url: str | None = None, token: str | None = None) -> Address:
    """Return the pool from the arguments, else from the environment, else the one on this machine.

    Raises:
        Unreachable: no pool is known, or its address is invalid.
    """
    named = url or os.environ.get(URL)
    token = _checked_token(token, "The token") if token else _checked_token(os.environ.get(TOKEN), TOKEN)
    if named:
        if named.startswith(SCHEME):
            ssh = parse(named)
            return Address(f"http://{ssh.host}", token, frozenset({os.getuid()}), directory_of(ssh), ssh)
        checked = _checked(named)
        return Address(checked, token, None if checked.startswith(CLUSTER) else expected_uids())
    path = home()
    if not os.environ.get(HOME) and not _is_there(path / SERVER_FILE) and _is_there(MACHINE / SOCKET_FILE):
        path = MACHINE
    with _opened(path) as directory:
        owner = _owner(directory, path)
        url, has_socket = _place(directory, path, owner)
        if token is None and path != MACHINE:
            token = _read(directory, TOKEN_FILE, path, owner).strip() or None
            if token is not None and _misfit(token) is not None:
                raise Unreachable(f"{path / TOKEN_FILE} is damaged: restart the pool with `weir up`.")
    return Address(_checked(url), token, frozenset({owner}), path if has_socket else None)


@contextmanager
def open_socket_path(path: Path) -> Iterator[str]:
    """Yield a short path of the socket in a home, which stays valid if the home is renamed.

    Raises:
        Unreachable: the home can't be opened.
    """
    with _opened(path) as directory:
        yield f"/proc/self/fd/{directory}/{SOCKET_FILE}"


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _none_here(path) from None
    except PermissionError:
        raise Unreachable(f"{path} belongs to someone else: {ELSEWHERE}.") from None
    except OSError as error:
        raise Unreachable(f"{path} can't be opened ({error.strerror}): name another with {HOME}.") from None
    try:
        yield directory
    finally:
        os.close(directory)


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def is_beside_installed() -> bool:
    """Return True if a personal pool is taken by default although one is installed on this machine."""
    return not os.environ.get(HOME) and _is_there(INSTALLED)


def ask_to_start() -> str:
    """Return the request to start the installed pool, with the command of this machine."""
    command = (
        "`systemctl start weir`"
        if SYSTEMD.is_dir()
        else "without systemd, with the command that `sudo weir install` prints"
    )
    return f"ask its administrator to start it ({command}); its jobs run on."


def _none_here(path: Path) -> Unreachable:
    if is_beside_installed():
        return Unreachable(f"The pool of this machine is stopped: {ask_to_start()}")
    return Unreachable(
        f"No pool runs in {path}: {ELSEWHERE}, or start one with `weir up`; "
        "`sudo weir install` installs one for everyone on this machine."
    )


def _owner(directory: int, path: Path) -> int:
    """Return the uid of the owner of a home.

    Only root can create the directory of the machine's socket, so its owner is the pool's user.

    Raises:
        Unreachable: the owner isn't a user that the pool may run as.
    """
    owner = os.fstat(directory).st_uid
    expected = None if path == MACHINE else expected_uids()
    if owner and expected is not None and owner not in expected:
        name = user_name(owner)
        raise Unreachable(
            f"{path} belongs to user {name}: {ELSEWHERE}; if {name} runs your pool, set {SERVER_USER}={name}."
        )
    return owner


def _place(directory: int, path: Path, owner: int) -> tuple[str, bool]:
    """Return the URL from the server's file in a home, and if there is a socket."""
    try:
        written = json.loads(_read(directory, SERVER_FILE, path, owner))
        return str(written["url"]), written.get("socket") == SOCKET_FILE
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Unreachable(f"{path / SERVER_FILE} can't be read: restart the pool with `weir up`.") from error


def _read(directory: int, name: str, path: Path, owner: int) -> str:
    """Return the text of a file in a home. Files of other users are refused."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        if name == SERVER_FILE:
            raise _none_here(path) from None
        raise Unreachable(f"{path / name} can't be read: {ELSEWHERE}.") from None
    except OSError:
        raise Unreachable(f"{path / name} can't be read: {ELSEWHERE}.") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (owner, 0):
            name_of = user_name(status.st_uid)
            raise Unreachable(
                f"{path / name} is no file of the pool but of user {name_of}: delete it, and start `weir up`."
            )
        return os.read(file, _FILE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        os.close(file)


def _checked_token(token: str | None, name: str) -> str | None:
    """Return a token that fits into a request, or none. `name` says where it comes from.

    Raises:
        Unreachable: it has a character that no token has; the sentence doesn't repeat the token.
    """
    token = None if token is None else token.strip() or None
    misfit = None if token is None else _misfit(token)
    if misfit is not None:
        raise Unreachable(f"{name} has {misfit!a}: write the token as `weir token create` printed it.")
    return token


def _misfit(token: str) -> str | None:
    """Return the first character that no token has; None if all may be in one."""
    return next((character for character in token if not "!" <= character <= "~"), None)


def _checked(url: str) -> str:
    if url.startswith(CLUSTER):
        return url
    parts = urlsplit(url)
    is_text = url.isprintable()  # a name that isn't UTF-8 can't be one
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_text:
        raise Unreachable(
            f"{ascii(url)[1:-1]} is not the URL of a pool; write one such as http://127.0.0.1:9347."
        )
    return url.rstrip("/")
