"""The server's side of its link to the node process."""

import logging
import socket
import threading

import pytest

from weir.local.processes.fd_watcher import FdWatcher
from weir.local.processes.node_client import NodeClient, NodeGone


class LinkOfRoot:
    """A link to a node process that root started: it ends once."""

    pid = 1

    def __init__(self) -> None:
        self.ours = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        self.asked = False
        self.gone = threading.Event()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        if self.asked:
            self.gone.set()
            raise NodeGone(32, "the node process has ended, so the server stops")
        self.asked = True
        return self.ours[0][0], self.ours[1][0]

    def close(self) -> None:
        pass

    def end(self) -> None:
        """End the process: its sockets close."""
        for _, theirs in self.ours:
            theirs.close()


def test_the_end_of_the_node_process_is_said_once_and_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch, link, restarted = FdWatcher(), LinkOfRoot(), threading.Event()
    client = NodeClient(link, watch, restarted.set)
    with caplog.at_level(logging.ERROR):
        link.end()
        assert link.gone.wait(60)
        watch.close()
    assert not caplog.records
    assert not restarted.is_set()
    with pytest.raises(NodeGone):
        client.call("ping")  # type: ignore[arg-type]
