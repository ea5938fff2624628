"""Ports of the server: addresses of this machine itself, and the sockets that listen on them."""

import socket

from weir.api.loopback import is_loopback

WAITING_MAX = 4096
"""Connections that wait to be accepted; beyond, the kernel has a client try again a second later."""


class PortUnavailable(Exception):
    """The address is in use, or not local."""


def address_refused(host: str) -> str | None:
    """Return why the server doesn't listen on an address; None if the address is local to this machine."""
    if is_loopback(host):
        return None
    return (
        f"{host} can be reached from other machines, and --host has no TLS: leave it out, and open the "
        "pool to them with --listen, --tls-certificate and OpenID Connect."
    )


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens on a port.

    Raises:
        PortUnavailable: the address is in use, or not local.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. asyncio sets it only if the socket names its protocol, and an answer of two
        # segments over a kept connection then waits 40 ms for the acknowledgement of the first.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((host, port))
        listening.listen(WAITING_MAX)  # early requests queue up here
    except OSError as error:
        listening.close()
        problem = f"{host} port {port} isn't available ({reason(error)}): choose another with {option}"
        raise PortUnavailable(problem) from None
    listening.set_inheritable(False)
    return listening


def reason(error: OSError) -> str:
    """Return the text of a system error, as a part of a sentence."""
    problem = error.strerror or str(error)
    return problem[:1].lower() + problem[1:]
