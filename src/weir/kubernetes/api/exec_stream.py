"""Commands in containers: the exec subresource of a pod, over a WebSocket to the API server.

The protocol is v5.channel.k8s.io. The first byte of a message names its channel. Version 5 can end the
standard input alone, which pipes need; API servers speak it since 1.30.
"""

import json
from collections.abc import AsyncIterator, Sequence
from enum import IntEnum
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import msgspec

from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.container_address import ContainerAddress, ExecNotStarted
from weir.kubernetes.api.credentials import Credentials
from weir.kubernetes.api.errors import ApiStatus, ApiUnreachable
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.web_socket import WebSocket, connect

PROTOCOL = "v5.channel.k8s.io"
CONNECT_S = 30.0
PIECE_BYTES = 32 << 10
_CLOSE = 255
_HAS_EXIT_CODE = "NonZeroExitCode"
_NO_REASON = "no reason is given"


class Channel(IntEnum):
    """Channel of a message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4


class StreamBroken(ApiUnreachable):
    """The stream ended before the command."""


class ExecStream:
    """The streams of one command. `exit_code` is set once they have ended."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    async def send(self, data: bytes) -> None:
        """Write to the standard input of the command.

        Raises:
            StreamBroken: the stream has ended.
        """
        for start in range(0, len(data), PIECE_BYTES):
            await self._send(bytes((Channel.STDIN,)) + data[start : start + PIECE_BYTES])

    async def end_input(self) -> None:
        """End the standard input of the command."""
        await self._send(bytes((_CLOSE, Channel.STDIN)))

    async def resize(self, columns: int, lines: int) -> None:
        """Give the terminal of the command a size."""
        size = json.dumps({"Width": columns, "Height": lines}).encode()
        await self._send(bytes((Channel.RESIZE,)) + size)

    async def output(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Yield the output of the command until it ends.

        Raises:
            StreamBroken: the stream ended before the command.
            ExecNotStarted: the command didn't start.
        """
        while self.exit_code is None:
            try:
                message = await self._socket.receive()
            except OSError as error:
                raise StreamBroken(str(error) or type(error).__name__, may_have_happened=True) from None
            channel, data = message[:1], message[1:]
            if channel == bytes((Channel.STATUS,)):
                self.exit_code = exit_code_of(data)
            elif data and channel in (b"\x01", b"\x02"):
                yield Channel(channel[0]), data

    async def close(self) -> None:
        """Close the streams. A command that doesn't read its input continues."""
        await self._socket.close()

    async def _send(self, message: bytes) -> None:
        try:
            await self._socket.send(message)
        except OSError as error:
            raise StreamBroken(str(error) or type(error).__name__, may_have_happened=True) from None


def exit_code_of(written: bytes) -> int:
    """Return the exit code in the status that ends a stream.

    Raises:
        ExecNotStarted: the command didn't run.
    """
    try:
        status = msgspec.json.decode(written, type=ApiStatus)
    except msgspec.DecodeError:
        raise ExecNotStarted(written[:300].decode(errors="replace") or _NO_REASON) from None
    if status.status == "Success":
        return 0
    if status.reason == _HAS_EXIT_CODE and status.details is not None:
        codes = [cause.message for cause in status.details.causes if cause.reason == "ExitCode"]
        if codes and codes[0].isdigit():
            return int(codes[0])
    raise ExecNotStarted(status.message or status.reason or _NO_REASON)


class ExecClient:
    """Starts commands in containers; opened with `async with`."""

    def __init__(self, access: Credentials) -> None:
        self._api = ApiClient(access, ClientLimits(read_s=CONNECT_S))

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._api.__aexit__(kind, error, trace)

    async def start(
        self,
        address: ContainerAddress,
        command: Sequence[str],
        *,
        has_input: bool = True,
        has_terminal: bool = False,
    ) -> ExecStream:
        """Start a command.

        Raises:
            ApiRefused: the API server refuses it.
            ApiUnreachable: the API server can't be reached.
        """
        options = [("container", address.container), *(("command", word) for word in command)]
        options += [("stdout", "true"), ("stdin", str(has_input).lower())]
        options += [("tty", "true")] if has_terminal else [("stderr", "true")]
        path = path_of("v1", "pods", address.namespace, address.pod)
        return ExecStream(await connect(self._api, f"{path}/exec", urlencode(options), PROTOCOL))
