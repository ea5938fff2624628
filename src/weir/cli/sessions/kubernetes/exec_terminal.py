"""A command in a container with this process's terminal, or its standard input and output."""

import asyncio
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from weir.kubernetes.api.container_address import ContainerAddress
from weir.kubernetes.api.exec_stream import PIECE_BYTES, Channel, ExecClient, ExecStream, StreamBroken

if TYPE_CHECKING:
    from weir.kubernetes.api.credentials import Credentials

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_PIECES_MAX = 4
_CAPTURED_BYTES_MAX = 1 << 16


def run(access: "Credentials", address: ContainerAddress, command: Sequence[str], *, terminal: bool) -> int:
    """Run a command with the standard streams of this process; return its exit code.

    Raises:
        ApiError: it can't be started, or the stream breaks off.
        ExecNotStarted: the container has no such program.
    """
    sys.stdout.flush()
    return asyncio.run(_run(access, address, command, terminal=terminal))


def capture(access: "Credentials", address: ContainerAddress, command: Sequence[str]) -> tuple[int, str]:
    """Run a command without input; return its exit code and its output. Raises the errors of `run`."""
    return asyncio.run(_capture(access, address, command))


async def _run(
    access: "Credentials", address: ContainerAddress, command: Sequence[str], *, terminal: bool
) -> int:
    async with ExecClient(access) as client:
        stream = await client.start(address, command, has_terminal=terminal)
        with _raw_terminal(terminal):
            tasks = [asyncio.create_task(_send_input(stream))]
            if terminal:
                tasks.append(asyncio.create_task(_send_sizes(stream)))
            try:
                async for channel, data in stream.output():
                    target = _STDERR if channel is Channel.STDERR else _STDOUT
                    await asyncio.to_thread(_write, target, data)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await stream.close()
    assert stream.exit_code is not None, "its output has ended"
    return stream.exit_code


async def _capture(
    access: "Credentials", address: ContainerAddress, command: Sequence[str]
) -> tuple[int, str]:
    async with ExecClient(access) as client:
        stream = await client.start(address, command, has_input=False)
        text = b""
        try:
            async for channel, data in stream.output():
                if channel is Channel.STDOUT and len(text) < _CAPTURED_BYTES_MAX:
                    text += data
        finally:
            await stream.close()
    assert stream.exit_code is not None, "its output has ended"
    return stream.exit_code, text.decode(errors="replace")


async def _send_input(stream: ExecStream) -> None:
    """Send the standard input. A thread reads it, since a loop can't await files."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[bytes](_PIECES_MAX)

    def read() -> None:
        data = b"-"
        with suppress(RuntimeError):  # the loop has ended
            while data:
                try:
                    data = os.read(_STDIN, PIECE_BYTES)
                except OSError:
                    data = b""
                asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()

    threading.Thread(target=read, daemon=True).start()
    with suppress(StreamBroken):  # the reader of the output reports it
        while data := await pieces.get():
            await stream.send(data)
        await stream.end_input()


async def _send_sizes(stream: ExecStream) -> None:
    """Send the size of the terminal, now and after each change."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = shutil.get_terminal_size()
            with suppress(OSError):
                size = os.get_terminal_size(_STDOUT)
            await stream.resize(size.columns, size.lines)
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def _raw_terminal(terminal: bool) -> Iterator[None]:
    """Pass keys on as they are, Ctrl-C included, until the block ends."""
    if not terminal:
        yield
        return
    before = termios.tcgetattr(_STDIN)
    tty.setraw(_STDIN)
    try:
        yield
    finally:
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
