"""Peers of Unix sockets: the kernel says which process connected, and as which user.

The credentials are those of the moment of `connect`. They are stored beside a request's headers, where a
caller can't put anything.
"""

import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import Scope

PEER = "peer"
"""Key of the state of a request; the audit log shows the value as the source."""
_CREDENTIALS = struct.Struct("3i")
_NO_ID = 0xFFFFFFFF
_OVERFLOW = Path("/proc/sys/kernel/overflowuid")


@dataclass(frozen=True, slots=True)
class PeerCredentials:
    """The process and the user at the other end of a Unix socket."""

    pid: int
    uid: int

    def __str__(self) -> str:
        return f"unix:uid={self.uid},pid={self.pid}"


def peer_of_socket(connection: Any) -> PeerCredentials | None:
    """Return the peer of a connection; None if it isn't a Unix socket, or the kernel names no user."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    uid &= _NO_ID
    return None if uid in (_NO_ID, _overflow_uid()) else PeerCredentials(pid, uid)


def peer_of(scope: Scope) -> PeerCredentials | None:
    """Return the peer of a request; None if the request came over a port."""
    peer = scope.get("state", {}).get(PEER)
    return peer if isinstance(peer, PeerCredentials) else None


def _overflow_uid() -> int:
    """Return the user id that the kernel shows for all users of other user namespaces: it names no user."""
    try:
        return int(_OVERFLOW.read_text("ascii"))
    except (OSError, ValueError):
        return _NO_ID - 1
