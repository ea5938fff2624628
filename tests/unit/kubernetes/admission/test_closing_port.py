"""The port of the webhooks when it closes: no connection is lost that was accepted a moment before."""

import asyncio
import gc
import socket
import warnings
from contextlib import suppress
from typing import ClassVar

import pytest

from weir.kubernetes.admission.connection_limit import ConnectionLimit
from weir.kubernetes.admission.reviews import PodRules, QuotaTree
from weir.kubernetes.admission.token_review import TokenReviewer
from weir.kubernetes.admission.webhook_server import WebhookServices, application, serve, tls_context


class Silent(TokenReviewer):
    def __init__(self) -> None:
        """Review no token."""


@pytest.mark.parametrize("turns", range(4))
async def test_a_port_that_closes_loses_no_connection_that_it_accepted(turns: int) -> None:
    services = WebhookServices(
        lambda: QuotaTree({}, {}, {}), PodRules("weir", "gpu".__eq__), Silent(), lambda: "key"
    )
    port = await serve(application(services), tls_context(), "127.0.0.1", 0)
    clients = [socket.create_connection(("127.0.0.1", port.port)) for _ in range(3)]
    for _ in range(turns):  # now they are in the queue of the kernel, or accepted, or begun with
        await asyncio.sleep(0)
    await port.cleanup()
    for transport in list(asyncio.get_running_loop()._transports.values()):  # type: ignore[attr-defined]
        transport.abort()
    await asyncio.sleep(0.05)
    for client in clients:
        client.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(each.message) for each in caught] == []


async def test_a_connection_whose_handshake_ends_after_the_port_closed_is_ended() -> None:
    class Inner(asyncio.Protocol):
        calls: ClassVar[list[str]] = []

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.calls.append("made")

        def connection_lost(self, exc: Exception | None) -> None:
            self.calls.append("lost")

    limit = ConnectionLimit()
    limit.close()
    server = await asyncio.get_running_loop().create_server(limit.wrap(Inner), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    with suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    server.close()
    await server.wait_closed()
    assert (Inner.calls, len(limit)) == ([], 0)
