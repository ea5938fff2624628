"""Connection to a pool on another machine through OpenSSH: `WEIR_URL=ssh://gpu1`.

A background process of ssh forwards a socket of this user to the socket of the pool there. There the kernel
names the user whom sshd let in. It is held for some minutes, so that commands after the first are quick. This
module uses the standard library only, because completion runs while a person types.
"""

import fcntl
import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from weir.client.errors import Unreachable

SCHEME = "ssh://"
MACHINE_SOCKET = "/run/weir/weir.sock"
SOCKET_FILE = "weir.sock"
HELD_S = 600
"""Time for which the connection is held; it stays as long as a request uses it."""
_CONNECT_S = 15
_LOGIN_S = 180.0  # a person may have to answer
_ADDRESS = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z0-9_.][A-Za-z0-9_.@\\-]{0,100})@)?"
    r"(?P<host>[A-Za-z0-9_.][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]{2,64}\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>/[A-Za-z0-9_./-]{0,300})?"
)


@dataclass(frozen=True, slots=True)
class SshAddress:
    """Destination of ssh, and the socket of the pool there."""

    host: str
    user: str | None = None
    port: int | None = None
    path: str = MACHINE_SOCKET

    @property
    def destination(self) -> str:
        """Return the destination as ssh takes it."""
        host = self.host.strip("[]")
        return host if self.user is None else f"{self.user}@{host}"


def parse(url: str) -> SshAddress:
    """Return the parts of an address such as ssh://gpu1 or ssh://mia@gpu1:2222/home/mia/.weir/weir.sock.

    Raises:
        Unreachable: the text is no such address.
    """
    match = _ADDRESS.fullmatch(url)
    if match is None or not 0 < int(match["port"] or 22) < 65536:
        raise Unreachable(f"{url} is no address for ssh: write one such as ssh://gpu1 or ssh://mia@gpu1.")
    path = match["path"] if match["path"] not in (None, "/") else MACHINE_SOCKET
    return SshAddress(match["host"], match["user"], int(match["port"]) if match["port"] else None, path)


def directory_of(address: SshAddress) -> Path:
    """Return the directory of the forwarded socket, which belongs to this user alone.

    Raises:
        Unreachable: the directory can't be made, or is someone else's.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    above = Path(base) / "weir-ssh" if base else Path.home() / ".cache" / "weir-ssh"
    words = f"{address.destination} {address.port} {address.path}"
    directory = above / hashlib.sha256(words.encode()).hexdigest()[:16]
    for path in (above, directory):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700, parents=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise Unreachable(f"{path} isn't a directory of yours alone: delete it.")
    return directory


def hold(address: SshAddress) -> Path:
    """Connect unless a connection is held already; return the directory of the socket.

    Raises:
        Unreachable: ssh isn't installed or can't connect.
    """
    directory = directory_of(address)
    if not _is_alive(directory / SOCKET_FILE):
        with _locked(directory):
            if not _is_alive(directory / SOCKET_FILE):  # another command may have connected meanwhile
                _connect(address, directory / SOCKET_FILE)
    return directory


def _connect(address: SshAddress, path: Path) -> None:
    import shutil
    import subprocess
    import tempfile

    ssh = shutil.which("ssh")
    if ssh is None:
        raise Unreachable("ssh isn't installed here: install OpenSSH, or set WEIR_URL to another address.")
    options = {
        "ExitOnForwardFailure": "yes",
        "StreamLocalBindUnlink": "yes",
        "StreamLocalBindMask": "0177",
        "ControlPath": "none",  # forwards of a shared connection would outlast this one
        "ConnectTimeout": str(_CONNECT_S),
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "3",
    }
    command = [ssh, "-fnTx", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    command += ["-L", f"{path}:{address.path}", *(() if address.port is None else ("-p", str(address.port)))]
    command += ["--", address.destination, f"exec sleep {HELD_S}"]
    with tempfile.TemporaryFile() as output:  # a pipe would stay open with the background process
        try:
            code = subprocess.run(  # noqa: S603 - each word is checked
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=_LOGIN_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = 255
        output.seek(0)
        lines = output.read(1 << 16).decode("utf-8", "replace").split("\n")
    if code:
        words = next((line.strip() for line in reversed(lines) if line.strip()), f"it ended with {code}")
        raise Unreachable(f"ssh can't connect to {address.destination}: {words.rstrip('.')}.")


def _is_alive(path: Path) -> bool:
    """Return True if a connection is held: its process accepts others."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        trying.settimeout(_CONNECT_S)
        try:
            trying.connect(str(path))
        except OSError:
            return False
    return True


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Wait for another command of this user that connects to the same pool."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(directory / "lock", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
