"""Node process of a personal pool, which has the rights of its user alone."""

import signal
import socket
from typing import Any

from weir.local.cgroups import Cgroups
from weir.local.node.process import NodeProcess
from weir.local.node.starts import Site


def serve_own(config: dict[str, Any]) -> int:
    """Serve the pool of this process's user, whose server started this process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))  # it ends with the server, not on a signal
    starts, calls = (socket.socket(fileno=fd) for fd in config["sockets"])
    return NodeProcess(Site(config["home"], Cgroups(*config["groups"])), starts, calls).serve()
