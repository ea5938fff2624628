"""Addresses of sessions on one port: each person's sessions answer on an address of their own."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from weir.dashboard.web_sessions.own_address import LOOPBACK, own_address
from weir.local.server.http.listening import WAITING_MAX, PortUnavailable, listen
from weir.local.server.http.problem_details import RequestRefused

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class SessionAddresses:
    """Addresses on one port. `listening` is that of the pool's port; the only one if it has one person."""

    def __init__(self, listening: socket.socket, *, is_personal: bool) -> None:
        self._listening = listening
        self._is_personal = is_personal
        self._servers: dict[str, asyncio.Server] = {}
        self._lock = asyncio.Lock()
        self.port: int = listening.getsockname()[1]

    def address_of(self, user: str) -> str:
        """Return the address of a person."""
        return LOOPBACK if self._is_personal else own_address(user)

    async def begin(self, connected: Connected) -> None:
        """Accept connections on the address that holds the port."""
        self._servers[LOOPBACK] = await asyncio.start_server(
            connected, sock=self._listening, backlog=WAITING_MAX
        )

    async def serve(self, user: str, connected: Connected) -> None:
        """Accept connections on the address of a person.

        Raises:
            RequestRefused: another program has the port there.
        """
        address = self.address_of(user)
        async with self._lock:
            if address in self._servers:
                return
            try:
                listening = listen(address, self.port, "--sessions-port")
            except PortUnavailable as error:
                raise RequestRefused(503, f"{error}.") from None
            self._servers[address] = await asyncio.start_server(
                connected, sock=listening, backlog=WAITING_MAX
            )

    def close(self) -> None:
        """Accept no more connections."""
        for server in self._servers.values():
            server.close()
