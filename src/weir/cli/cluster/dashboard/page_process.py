"""`weir dashboard` on a cluster: serves the page until interrupted."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable

from aiohttp import web

from weir.cli.cluster.dashboard.cluster_view import ClusterView
from weir.cli.cluster.dashboard.cluster_watch import WatchBroken
from weir.cli.cluster.dashboard.kubeconfig_visitor import KubeconfigVisitor
from weir.cli.cluster.dashboard.page_server import PageServer
from weir.cli.cluster.errors import refused
from weir.cli.cluster.transport import kubeconfig_of
from weir.client.errors import Unreachable
from weir.dashboard.page_bundle import NOT_BUILT, index_file
from weir.kubernetes.admission.http_runner import http_runner
from weir.kubernetes.api.client import ApiClient

HOST = "127.0.0.1"
SHUTDOWN_S = 2.0


def serve(context: str | None, *, namespace: str | None, port: int, open_link: Callable[[str], None]) -> int:
    """Serve the dashboard of a context of the kubeconfig until Ctrl-C; `open_link` gets the link."""
    if index_file() is None:
        print(f"weir: {NOT_BUILT}", file=sys.stderr)
        return 1
    api = ApiClient(kubeconfig_of(context))
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        hint = "leave out --port, and a free one is taken"
        print(f"weir: port {port} can't be used: {error.strerror}; {hint}.", file=sys.stderr)
        return 1
    with listener:
        return asyncio.run(_serve(api, listener, context, namespace, open_link))


async def _check(view: ClusterView) -> None:
    """Read the cluster once before a link is printed, so that missing rights show at once.

    Raises:
        PoolError: the cluster can't be shown.
    """
    try:
        await view.live.watch()
    except WatchBroken as error:
        if error.status == 403:
            raise refused(403, f"{error} --namespace shows a namespace that you may read.") from None
        raise Unreachable(str(error)) from None


async def _serve(
    api: ApiClient,
    listener: socket.socket,
    context: str | None,
    namespace: str | None,
    open_link: Callable[[str], None],
) -> int:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stopped.set)
    port: int = listener.getsockname()[1]
    async with api:
        view = ClusterView(api, context or api.server, namespace=namespace)
        await _check(view)
        visitor = KubeconfigVisitor(view, port)
        server = PageServer(visitor, api.server)
        app = server.application()
        server.add_rest(app)
        runner = http_runner(app, shutdown_s=SHUTDOWN_S)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            link = f"http://{HOST}:{port}/#code={visitor.make_code()}"
            print(link, flush=True)
            print("The link signs you in once, within a minute. Ctrl-C ends the dashboard.", file=sys.stderr)
            open_link(link)
            await stopped.wait()
        finally:
            await view.live.stop()
            await runner.cleanup()
    return 0
