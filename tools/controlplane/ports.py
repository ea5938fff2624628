"""Ports of loopback for programs that tests start, each for one process of tests at a time.

The kernel gives connections ports of its own range. A port of that range which is free now may be an end of
a connection when the program binds it, so these are lower. Names of sockets claim them for one run of tests.
"""

import random
import socket

PORTS = range(10_100, 20_000)
"""Below the ports of connections and those that Weir gives to gangs; above 10080, which browsers refuse."""
_claims: list[int] = []


def free_port() -> int:
    """Return a port that nothing listens on; it is this process's as long as that runs.

    Raises:
        OSError: all ports are taken.
    """
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0weir-tests-port-{port}")
            with socket.socket() as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
        else:
            _claims.append(claim.detach())
            return port
    raise OSError("no port of loopback is free")
