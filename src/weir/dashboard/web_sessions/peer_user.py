"""User at the other end of a loopback connection, from the kernel.

Browsers send a cookie to every port of its host, and any user of a machine may listen on one. So a cookie
alone doesn't tell a person's browser from a program of another user that was sent the cookie.
"""

import socket
import struct
from typing import Any

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_HEAD, _TARGET, _REST = struct.Struct("=IHHII"), struct.Struct("!HH4s12x4s12x"), struct.Struct("=III")
_ASKED = struct.Struct("=BBBxI")
_FOUND = struct.Struct("=4x48x12xII")  # user and inode
_ANY = 0xFFFFFFFF
_ANSWER_BYTES, _ANSWER_S = 8192, 1.0


def peer_uid(connection: Any) -> int | None:
    """Return the user of the connected socket; None if the kernel doesn't report it.

    The answer for a connection whose other end is closed is None: the kernel has forgotten its user.
    """
    try:
        (address, port), (own, own_port) = connection.getpeername(), connection.getsockname()
        target = _TARGET.pack(port, own_port, socket.inet_aton(address), socket.inet_aton(own))
        body = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY) + target + _REST.pack(0, _ANY, _ANY)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
            kernel.settimeout(_ANSWER_S)
            kernel.send(_HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _REQUEST, 1, 0) + body)
            answer = kernel.recv(_ANSWER_BYTES)
        if _HEAD.unpack_from(answer)[1] == _BY_FAMILY:
            uid, inode = _FOUND.unpack_from(answer, _HEAD.size)
            return int(uid) if inode else None
    except (AttributeError, OSError, TypeError, ValueError, struct.error):
        pass  # no connection over IPv4, or a kernel without this answer
    return None
