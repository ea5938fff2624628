"""Users of connections over loopback, as this machine's kernel knows them."""

import os
import pwd
import socket
import subprocess
import sys

import pytest

from weir.dashboard.web_sessions.peer_user import peer_uid

_CONNECTS = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
connection = socket.socket()
connection.connect(("127.0.0.1", int(sys.argv[2])))
sys.stdin.read()
"""


def test_the_kernel_names_the_user_while_the_other_end_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        browser = socket.create_connection(server.getsockname())
        with server.accept()[0] as accepted:
            assert peer_uid(accepted) == os.getuid()
            browser.shutdown(socket.SHUT_WR)
            assert peer_uid(accepted) == os.getuid()
            browser.close()
            assert peer_uid(accepted) is None
        assert peer_uid(server) is None


def test_a_socket_that_has_no_port_has_no_user() -> None:
    near, far = socket.socketpair()
    with near, far:
        assert peer_uid(near) is None
    assert peer_uid(None) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_the_kernel_names_another_user() -> None:
    other = pwd.getpwnam("nobody").pw_uid
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(180)
        words = [sys.executable, "-c", _CONNECTS, str(other), str(server.getsockname()[1])]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            with server.accept()[0] as accepted:
                assert peer_uid(accepted) == other
            process.stdin.close()
            assert process.wait(180) == 0
