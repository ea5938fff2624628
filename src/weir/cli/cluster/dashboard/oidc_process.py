"""`weir kube dashboard-server`: serves the dashboard to people who sign in with OpenID Connect."""

import asyncio
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from structlog import get_logger

from weir.cli.cluster.dashboard.api_address import ApiAddress
from weir.cli.cluster.dashboard.oidc_routes import OidcRoutes
from weir.cli.cluster.dashboard.page_server import PageServer
from weir.cli.cluster.dashboard.signed_in_people import SignedInPeople
from weir.dashboard.oidc.settings import OidcSettings
from weir.dashboard.tls_listener import ListenSettings, TlsListener
from weir.kubernetes.admission.connection_limit import ConnectionLimit
from weir.kubernetes.admission.http_runner import http_runner

BACKLOG = 128
SHUTDOWN_S = 2.0
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of the server."""

    listen: ListenSettings
    oidc: OidcSettings
    api_server: str | None
    api_authority: Path
    memory_bytes: int


def serve(options: ServerOptions) -> None:
    """Serve until a signal ends it.

    Raises:
        NoCredentials: the API server isn't known.
        CertificateUnusable: certificate and key can't be served.
        OSError: the address can't be listened on.
    """
    address = ApiAddress(options.api_server, options.api_authority)
    listening = _listening(options.listen.host, options.listen.port)
    with listening:
        asyncio.run(_serve(options, address, TlsListener(options.listen, listening)))


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; `::` also accepts IPv4, and falls back to it if the kernel has no IPv6."""
    if host == "::" and not socket.has_dualstack_ipv6():
        host = "0.0.0.0"  # noqa: S104 - in a pod, behind TLS and a sign-in
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")


async def _serve(options: ServerOptions, address: ApiAddress, listener: TlsListener) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stopped.set)
    people = SignedInPeople(
        options.oidc, address, options.listen.public_url, memory_bytes=options.memory_bytes
    )
    limit, server = ConnectionLimit(), PageServer(people, address.url)
    app = server.application()
    app.middlewares.insert(0, limit.middleware)
    OidcRoutes(people, server, options.listen.proxies).add(app)
    server.add_rest(app)
    runner = http_runner(app, shutdown_s=SHUTDOWN_S, handle_signals=False)
    await runner.setup()
    made = limit.wrap(runner.server)  # type: ignore[arg-type]  # it is there after setup
    tasks = [asyncio.create_task(coroutine) for coroutine in (address.follow(), people.tidy())]
    opened = await listener.open(lambda _name: made(), BACKLOG)
    _LOG.info("dashboard_serves", url=options.listen.public_url, issuer=options.oidc.issuer)
    try:
        await stopped.wait()
    finally:
        opened.close()
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await people.close()
        limit.close()
        await runner.cleanup()
