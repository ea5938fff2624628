"""A session in a browser on a cluster: a listener on this machine until Ctrl-C."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from weir.cli.output.terminal import plain, say
from weir.cli.sessions.kubernetes.cluster_entry import ClusterPool
from weir.cli.sessions.kubernetes.program_streams import NoInterpreter, ProgramStreams
from weir.cli.sessions.kubernetes.session_container import running_container, short_name
from weir.cli.sessions.kubernetes.session_listener import SessionListener, until_it_listens
from weir.cli.sessions.pod_entry import EntryRefused
from weir.cli.sessions.ssh_files import user_name
from weir.cli.sessions.start import ENDED
from weir.client.errors import PoolError, Refused
from weir.dashboard.web_sessions.own_address import LOOPBACK, own_address
from weir.kubernetes.api.container_address import ContainerAddress
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.exec_stream import ExecClient
from weir.local.starts.session_programs import SOCKET_IN_CONTAINER

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.api.sessions import SessionKind

PORT = 9348
_LOOK_S, _LISTENS_LOOK_S = 3.0, 0.2


def serve_session(
    cluster: ClusterPool,
    kind: "SessionKind",
    detail: "WorkloadDetail",
    address: ContainerAddress,
    open_link: Callable[[str], None],
) -> int:
    """Serve a running session until Ctrl-C. Return the exit code.

    Raises:
        EntryRefused: it can't be entered, or has ended.
    """
    with _listening() as listener:
        return asyncio.run(_serve(cluster, kind, detail, address, listener, open_link))


def _listening() -> socket.socket:
    """Return a socket that listens on the person's own address of loopback, if this machine has it."""
    for host in (own_address(user_name()), LOOPBACK):
        for port in (PORT, 0):
            with suppress(OSError):
                return socket.create_server((host, port))
    raise EntryRefused("no port of loopback can be used")


async def _serve(
    cluster: ClusterPool,
    kind: "SessionKind",
    detail: "WorkloadDetail",
    address: ContainerAddress,
    listener: socket.socket,
    open_link: Callable[[str], None],
) -> int:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stopped.set)
    name, root = short_name(detail.name), "{}:{}".format(*listener.getsockname()[:2])
    async with ExecClient(cluster.transport.access) as client:
        streams = ProgramStreams(client, SOCKET_IN_CONTAINER)
        streams.move(address)
        session = SessionListener(streams, kind, name, root)
        server = await asyncio.start_server(session.connected, sock=listener)
        watching = asyncio.create_task(_watch(cluster, detail, streams, session))
        waiting = asyncio.create_task(stopped.wait())
        opening = asyncio.create_task(_open(session, streams, name, open_link))
        try:
            await asyncio.wait({watching, waiting, opening}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done() and opening.exception() is None:
                await asyncio.wait({watching, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
            if watching.done():
                watching.result()
        except NoInterpreter as error:
            raise EntryRefused(f"{name} can't be opened: {str(error).rstrip('.')}") from None
        finally:
            watching.cancel()
            waiting.cancel()
            opening.cancel()
            await asyncio.gather(watching, waiting, opening, return_exceptions=True)
            server.close()
            session.close()
            await streams.close()
    print(
        f"\n{name} still runs: the same command opens it again, and `weir stop {name}` ends it.",
        file=sys.stderr,
    )
    return 0


async def _open(
    session: SessionListener, streams: ProgramStreams, name: str, open_link: Callable[[str], None]
) -> None:
    """Print the link of a session once its program listens."""
    await until_it_listens(streams, _LISTENS_LOOK_S)
    link = session.link()
    print(link, flush=True)
    ends = f"Ctrl-C closes this connection, and `weir stop {name}` ends {name}."
    say(f"The link opens {name} once, within a minute. {ends}")
    open_link(link)


async def _watch(
    cluster: ClusterPool, detail: "WorkloadDetail", streams: ProgramStreams, session: SessionListener
) -> None:
    """Follow a workload from pod to pod until it ends.

    Raises:
        EntryRefused: it has ended.
    """
    name, last_trouble, uid = short_name(detail.name), "", None
    while True:
        await asyncio.sleep(_LOOK_S)
        try:
            now, address = await asyncio.to_thread(_look, cluster, detail.name)
        except Refused as refused:
            if refused.status == 404:
                raise EntryRefused(f"{name} is over") from None
            continue
        except (PoolError, ApiRefused):
            continue  # the streams report a silent API server
        uid = now.uid if uid is None else uid
        if now.uid != uid or now.status in ENDED:
            raise EntryRefused(f"{name} is over: {_why(now) or now.status}")
        streams.move(address)
        why = _why(now) or "its container isn't there yet"
        session.trouble = "" if address is not None else f"{name} is {now.status}: {why}."
        if session.trouble != last_trouble:
            last_trouble = session.trouble
            print(
                last_trouble or f"{name} runs again: the page connects by itself.",
                file=sys.stderr,
                flush=True,
            )


def _look(cluster: ClusterPool, name: str) -> "tuple[WorkloadDetail, ContainerAddress | None]":
    now = cluster.pool.get(name)
    return now, running_container(cluster.transport, now)


def _why(detail: "WorkloadDetail") -> str:
    if detail.reason is not None:
        return plain(detail.reason.sentence).rstrip(".")
    return plain(detail.evicted.sentence).rstrip(".") if detail.evicted is not None else ""
