"""Check of the listener of a connection: a token is sent only to the pool's own server.

Any user of a machine can bind a port of it. Before a request to a program of this machine, the program's user
is read from the kernel: from the socket itself, or from /proc/net/tcp. This module uses the standard library
only, because completion runs while a person types.
"""

import ipaddress
import os
import pwd
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weir.client.errors import Unreachable
from weir.user_names import user_name

SERVER_USER = "WEIR_SERVER_USER"
ANY = "any"
_ROOT = 0
_LISTEN = "0A"
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class _Row:
    """A socket of /proc/net/tcp or tcp6."""

    local: tuple[str, int]
    remote: tuple[str, int]
    is_listening: bool
    uid: int
    inode: int


def check(connection: socket.socket, expected_uids: frozenset[int], called: str) -> None:
    """Refuse a connection to a program of another user on this machine.

    Args:
        connection: a connected socket, before the first request.
        expected_uids: the users a pool may run as, besides root.
        called: the pool's address, for the message.

    Raises:
        Unreachable: the listener isn't the pool's.
    """
    if connection.family == socket.AF_UNIX:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uids = {_CREDENTIALS.unpack(raw)[1]}
    else:
        peer_uids = _uids_of(connection)
        if peer_uids is None:
            return
        uids = peer_uids
    if not uids:
        raise Unreachable(
            f"It can't be known which program answers at {called}, so no token is sent there: "
            f"set {SERVER_USER}={ANY} if that is how your pool is reached."
        )
    strangers = uids - expected_uids - {_ROOT}
    if strangers:
        name = user_name(min(strangers))
        raise Unreachable(
            f"{called} is answered by a program of user {name}, so no token is sent there: "
            f"if {name} runs your pool, set {SERVER_USER}={name}."
        )


def expected_uids() -> frozenset[int] | None:
    """Return the users that the pool at $WEIR_URL may run as; None for any.

    Raises:
        Unreachable: WEIR_SERVER_USER names no user.
    """
    named = os.environ.get(SERVER_USER, "").strip()
    if named == ANY:
        return None
    own = {os.getuid()}
    if not named:
        return frozenset(own)
    if named.isascii() and named.isdigit():
        return frozenset(own | {int(named)})
    try:
        return frozenset(own | {pwd.getpwnam(named).pw_uid})
    except KeyError:
        message = (
            f"{SERVER_USER} is {named!r}, no user of this machine: write the user of the pool's server, "
            "such as root."
        )
        raise Unreachable(message) from None


def _uids_of(connection: socket.socket) -> set[int] | None:
    """Return the users that listen at a connection's address; None if it is on another machine.

    The owner of the connection's other end counts too: another listener may have replaced its own.
    """
    near, far = _plain(connection.getsockname()), _plain(connection.getpeername())
    if far[0] != near[0] and not ipaddress.ip_address(far[0]).is_loopback:
        return None
    rows = _rows(far[1])
    if rows is None:  # not Linux
        return None
    uids = set()
    for row in rows:
        address, port = row.local
        if row.is_listening:
            if port == far[1] and (address == far[0] or ipaddress.ip_address(address).is_unspecified):
                uids.add(row.uid)
        elif row.inode and row.local == far and row.remote == near:
            uids.add(row.uid)
    return uids


def _plain(name: tuple[str, int]) -> tuple[str, int]:
    return _unmapped(ipaddress.ip_address(name[0].partition("%")[0])), name[1]


def _rows(port: int) -> list[_Row] | None:
    """Return the sockets of this machine with a local port; None if the kernel lists no sockets."""
    rows, is_listed, ending = [], False, f":{port:04X}"
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text("ascii").splitlines()[1:]:
                fields = line.split(maxsplit=10)
                if fields[1].endswith(ending):  # a busy machine has thousands of others
                    local, remote = _address(fields[1]), _address(fields[2])
                    rows.append(_Row(local, remote, fields[3] == _LISTEN, int(fields[7]), int(fields[9])))
            is_listed = True
    return rows if is_listed else None


def _address(written: str) -> tuple[str, int]:
    """Read an address as the kernel writes it: words in the order of the machine, then the port."""
    host, _, port = written.partition(":")
    raw = bytes.fromhex(host)
    words = struct.unpack(f">{len(raw) // 4}I", raw)
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    return _unmapped(address), int(port, 16)


def _unmapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
