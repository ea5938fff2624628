"""Commands in containers: the exec subresource of a pod, over a WebSocket to the API server.

The protocol is v5.channel.k8s.io. The first byte of a message names its channel. Version 5 can end the
standard input alone, which pipes need; API servers speak it since 1.30.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from enum import IntEnum
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from weir import __version__
from weir.kubernetes.api.container_address import ContainerAddress, ExecNotStarted
from weir.kubernetes.api.credentials import Credentials, NoCredentials
from weir.kubernetes.api.errors import ApiStatus, ApiUnreachable, refusal
from weir.kubernetes.api.paths import path_of

PROTOCOL = "v5.channel.k8s.io"
CONNECT_S = 30.0
ALIVE_S = 20.0
"""Interval of pings; a connection without an answer for half of it more has broken off."""
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


class _Cause(Struct):
    reason: str = ""
    message: str = ""


class _Details(Struct):
    causes: list[_Cause] = []


class _EndStatus(Struct):
    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class ExecStream:
    """The streams of one command. `exit_code` is set once they have ended."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
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
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise StreamBroken(self._why_broken(message.data, message.extra), may_have_happened=True)
            channel, data = message.data[:1], message.data[1:]
            if channel == bytes((Channel.STATUS,)):
                self.exit_code = exit_code_of(data)
            elif data and channel in (b"\x01", b"\x02"):
                yield Channel(channel[0]), data

    async def close(self) -> None:
        """Close the streams. The command goes on if it doesn't read its input, which has ended now."""
        await self._socket.close()

    async def _send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except (OSError, aiohttp.ClientError, RuntimeError) as error:
            raise StreamBroken(str(error) or type(error).__name__, may_have_happened=True) from None

    @staticmethod
    def _why_broken(data: object, reason: object) -> str:
        if isinstance(data, Exception):
            return str(data) or type(data).__name__
        return reason if isinstance(reason, str) and reason else "the API server or the node ended it"


def exit_code_of(written: bytes) -> int:
    """Return the exit code in the status that ends a stream.

    Raises:
        ExecNotStarted: the command didn't run.
    """
    try:
        status = msgspec.json.decode(written, type=_EndStatus)
    except msgspec.DecodeError:
        raise ExecNotStarted(written[:300].decode(errors="replace") or _NO_REASON) from None
    if status.status == "Success":
        return 0
    if status.reason == _HAS_EXIT_CODE and status.details is not None:
        codes = [each.message for each in status.details.causes if each.reason == "ExitCode"]
        if codes and codes[0].isdigit():
            return int(codes[0])
    raise ExecNotStarted(status.message or status.reason or _NO_REASON)


class ExecClient:
    """Starts commands in containers; opened with `async with`.

    `access` has been used for another request: the first one settles how its certificates are checked.
    """

    def __init__(self, access: Credentials) -> None:
        self._access = access
        self._http: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()
        await asyncio.sleep(0.01)  # sockets under TLS close in some steps

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
            ApiUnreachable: there is no connection to it.
        """
        options = [("container", address.container), *(("command", word) for word in command)]
        options += [("stdout", "true"), ("stdin", str(has_input).lower())]
        options += [("tty", "true")] if has_terminal else [("stderr", "true")]
        path = path_of("v1", "pods", address.namespace, address.pod)
        url = URL(f"{self._access.server}{path}/exec?{urlencode(options)}", encoded=True)
        try:
            async with asyncio.timeout(CONNECT_S):
                return ExecStream(await self._connected(url))
        except (OSError, aiohttp.ClientError, TimeoutError, NoCredentials) as error:
            reason = str(error) or f"no answer within {CONNECT_S:g} s"
            raise ApiUnreachable(reason, may_have_happened=False) from None

    async def _connected(self, url: URL) -> aiohttp.ClientWebSocketResponse[bool]:
        """Return a WebSocket; renew a refused token once."""
        try:
            return await self._open(url)
        except aiohttp.WSServerHandshakeError as error:
            if error.status != 401:
                raise await self._refusal(url, error) from None
        try:
            return await self._open(url, refused=True)
        except aiohttp.WSServerHandshakeError as error:
            raise await self._refusal(url, error) from None

    async def _open(self, url: URL, *, refused: bool = False) -> aiohttp.ClientWebSocketResponse[bool]:
        return await self._http.ws_connect(
            url,
            protocols=(PROTOCOL,),
            headers=await self._headers(refused=refused),
            heartbeat=ALIVE_S,
            ssl=self._access.tls() or True,
            server_hostname=self._access.server_name,
            proxy=self._access.proxy,
            max_msg_size=0,
        )

    async def _headers(self, *, refused: bool = False) -> dict[str, str]:
        authorization = await self._access.authorization(refused=refused)
        own = {"User-Agent": f"weir/{__version__}"}
        return {**own, "Authorization": authorization} if authorization else own

    async def _refusal(self, url: URL, error: aiohttp.WSServerHandshakeError) -> Exception:
        """Return the refusal of a WebSocket with its sentence, which the same request without one gets."""
        asked = self._http.get(
            url,
            headers=await self._headers(),
            ssl=self._access.tls() or True,
            server_hostname=self._access.server_name,
            proxy=self._access.proxy,
        )
        async with asked as answer:
            body = await answer.read()
        if answer.status == error.status:
            return refusal(answer.status, body)
        status = ApiStatus(code=error.status, message=f"the API server doesn't speak {PROTOCOL} here")
        return refusal(error.status, msgspec.json.encode(status))
