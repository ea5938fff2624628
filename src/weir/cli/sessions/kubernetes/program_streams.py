"""Connections to the program of a session in a container: an exec stream each, reused for requests.

A small script in the container connects the stream to the program's socket. The container's Python or Node
runs it: every program that is opened in a browser brings one of them.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import h11

from weir.dashboard.web_sessions.exchange import HttpEnd
from weir.kubernetes.api.container_address import ContainerAddress, ExecNotStarted
from weir.kubernetes.api.errors import ApiError, ApiRefused
from weir.kubernetes.api.exec_stream import Channel, ExecClient, ExecStream

IDLE_MAX = 8
STREAMS_MAX = 128
_JOINED = b"+"
_NO_INTERPRETER, _NOT_LISTENING = 91, 92
_START_S_MAX, _END_S_MAX = 30.0, 5.0
_READ_BYTES = 64 << 10
_SHELL = """
for each in python3 python; do command -v $each >/dev/null && exec $each -I -S -c "$3" "$1" "$2"; done
node=$(command -v node) || node=$(dirname "$(readlink -f "$(command -v code-server)")")/../lib/node
[ -x "$node" ] && exec "$node" -e "$4" "$1" "$2"
exit 91
"""
_PYTHON = """
import os, socket, sys, threading, time
s, end = socket.socket(socket.AF_UNIX), time.monotonic() + float(sys.argv[2])
while s.connect_ex(sys.argv[1]):
  if time.monotonic() > end: sys.exit(92)
  time.sleep(0.05)
os.write(1, b"+")
def up():
  try:
    while d := os.read(0, 65536): s.sendall(d)
    s.shutdown(1)
  except OSError: pass
threading.Thread(target=up, daemon=True).start()
try:
  while d := s.recv(65536):
    while d: d = d[os.write(1, d):]
except OSError: pass
os._exit(0)
"""
_NODE = """
const end = Date.now() + 1000 * process.argv[2];
(function join() {
  const s = require("net").connect(process.argv[1]); let joined = 0;
  const leave = () => process.stdout.write("", () => process.exit(0));
  s.on("error", () => joined ? leave() : Date.now() > end ? process.exit(92) : setTimeout(join, 50));
  s.on("close", () => joined && leave());
  s.on("connect", () => {
    joined = 1; process.stdout.write("+"); process.stdin.pipe(s); s.pipe(process.stdout); });
})();
"""


class NotListening(Exception):
    """The program can't be reached now; the text says why."""


class NoInterpreter(NotListening):
    """The container has no interpreter that can connect a stream to the program. A retry is useless."""


class ProgramStreams:
    """Streams to the program that listens on a socket. Belongs to the event loop."""

    def __init__(self, client: ExecClient, path: str) -> None:
        self._client = client
        self._path = path
        self._idle: list[HttpEnd] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.address: ContainerAddress | None = None

    def move(self, address: ContainerAddress | None) -> None:
        """Switch to another container; None: there is none at the moment."""
        if address != self.address:
            self.address = address
            for connection in self._idle:
                connection.writer.close()
            self._idle.clear()

    def kept(self) -> HttpEnd | None:
        """Return an idle stream of an earlier request; None if there is none."""
        while self._idle:
            end = self._idle.pop()
            if not end.reader.at_eof():
                return end
            end.writer.close()
        return None

    def give_back(self, end: HttpEnd, address: ContainerAddress | None) -> None:
        """Keep a stream to this container for another request, or close it."""
        is_whole = end.is_between_requests and not end.reader.at_eof()
        if is_whole and address == self.address and len(self._idle) < IDLE_MAX:
            end.http.start_next_cycle()
            self._idle.append(end)
        else:
            end.writer.close()

    def keep(self, end: HttpEnd) -> None:
        """Keep a new stream for the first request."""
        self._idle.append(end)

    async def opened(self, *, wait_s: float = 0.0) -> HttpEnd:
        """Return a new stream. `wait_s`: time for which its script waits for the program's socket.

        Raises:
            NotListening: the program can't be reached now.
            ApiRefused: the API server refuses the entry.
        """
        if self.address is None:
            raise NotListening("Its pod doesn't run now.")
        if len(self._tasks) >= STREAMS_MAX:
            raise NotListening(f"It has {STREAMS_MAX} connections already.")
        command = ["sh", "-c", _SHELL, "weir", self._path, str(wait_s), _PYTHON, _NODE]
        try:
            async with asyncio.timeout(_START_S_MAX + wait_s):
                stream = await self._client.start(self.address, command)
                output = stream.output()
                rest = await _joined(stream, output)
        except ApiRefused:
            raise
        except ExecNotStarted as error:
            raise NotListening(f"Its container can't be entered: {error}.") from None
        except (ApiError, TimeoutError) as error:
            why = str(error) or f"no answer within {_START_S_MAX:g} s"
            raise NotListening(f"The connection to the cluster broke off: {why}.") from None
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=near)
        task = asyncio.create_task(_carry(stream, output, far, rest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return HttpEnd(h11.CLIENT, reader, writer)

    async def close(self) -> None:
        """End all streams."""
        self.move(None)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _joined(stream: ExecStream, output: AsyncIterator[tuple[Channel, bytes]]) -> bytes:
    """Wait until the script has reached the socket; return the output of the program since.

    Raises:
        NotListening: it can't reach it.
    """
    message = b""
    async for channel, data in output:
        if channel is Channel.STDOUT and data.startswith(_JOINED):
            return data[len(_JOINED) :]
        message += data[:300]
    await stream.close()
    if stream.exit_code == _NOT_LISTENING:
        raise NotListening("Its program doesn't listen yet.")
    if stream.exit_code == _NO_INTERPRETER:
        raise NoInterpreter("Its image has neither Python nor Node, one of which the connection needs.")
    why = message.decode(errors="replace").strip() or f"exit code {stream.exit_code}"
    raise NotListening(f"Its program can't be reached: {why}.")


async def _carry(
    stream: ExecStream, output: AsyncIterator[tuple[Channel, bytes]], far: socket.socket, rest: bytes
) -> None:
    """Carry bytes between a stream and a socket until the program ends the connection."""
    reader, writer = await asyncio.open_unix_connection(sock=far)

    async def send() -> None:
        while data := await reader.read(_READ_BYTES):
            await stream.send(data)
        await stream.end_input()

    async def receive() -> None:
        writer.write(rest)
        async for channel, data in output:
            if channel is Channel.STDOUT:
                writer.write(data)
                await writer.drain()

    sending, receiving = asyncio.create_task(send()), asyncio.create_task(receive())
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({receiving}, timeout=_END_S_MAX)
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
        writer.close()
        with suppress(ApiError):
            await stream.close()
