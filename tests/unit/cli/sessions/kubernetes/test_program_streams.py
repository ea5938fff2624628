"""The scripts that join a stream with a socket, run by this machine's own Python and Node."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from weir.cli.sessions.kubernetes import program_streams

NODE = shutil.which("node")
SCRIPTS = [
    pytest.param([sys.executable, "-I", "-S", "-c", program_streams._PYTHON], id="python"),
    pytest.param(
        [NODE, "-e", program_streams._NODE],
        id="node",
        marks=pytest.mark.skipif(NODE is None, reason="no Node: apt-get install nodejs"),
    ),
]


def echo_after(path: Path, pause: threading.Event) -> threading.Thread:
    """Send back what the first connection says until it ends, once the pause is over."""

    def serve() -> None:
        pause.wait(180)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            stream, _ = listening.accept()
            with stream:
                while part := stream.recv(4096):
                    stream.sendall(part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_carries_bytes_both_ways_until_both_ends(script: list[str], tmp_path: Path) -> None:
    begun, content = threading.Event(), bytes(range(256)) * 4000
    server = echo_after(tmp_path / "s", begun)
    with subprocess.Popen(
        [*script, str(tmp_path / "s"), "180"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        begun.set()  # it waits for the socket
        output, _ = process.communicate(content, timeout=180)
    assert output == b"+" + content
    assert process.returncode == 0
    server.join(180)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_reader_that_is_late_gets_every_byte(script: list[str], tmp_path: Path) -> None:
    first, last = b"a" * 60_000, b"b" * 12_000  # the pipe holds 64 KiB
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        with subprocess.Popen(
            [*script, str(tmp_path / "s"), "180"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as process:
            stream, _ = listening.accept()
            with stream:
                stream.sendall(first)
                time.sleep(0.3)
                stream.sendall(last)
            time.sleep(0.3)  # the script has everything, and its reader nothing yet
            output, _ = process.communicate(timeout=180)
    assert output == b"+" + first + last
    assert process.returncode == 0


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_that_no_program_listens(script: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*script, str(tmp_path / "s"), "0"], stdin=subprocess.DEVNULL, timeout=180, check=False
    )
    assert done.returncode == 92
