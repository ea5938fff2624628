"""`weir up`: the pool on this machine, until it gets a signal to stop. Its jobs run on without it."""

import asyncio
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

import uvicorn
from structlog import get_logger

from weir.dashboard.tls_listener import TlsListener
from weir.local.backend import LocalBackend
from weir.local.files.disk_reserve import DiskReserve
from weir.local.machine.gpu_claim import GpuClaim
from weir.local.machine.machine import Machine, this_machine
from weir.local.node.shared import SOCKETS_VARIABLE
from weir.local.processes.node_client import RootNode
from weir.local.processes.stray_processes import end_stray_processes
from weir.local.records import persistent_clock
from weir.local.records.pod_records import UMASK
from weir.local.records.state_dir import StateDirInUse
from weir.local.server.access.audit import AuditLog
from weir.local.server.access.auth import Authenticator, admin_token
from weir.local.server.app import create_app
from weir.local.server.home import server_file
from weir.local.server.home.home_check import HomeRefused, check_home
from weir.local.server.home.retention import RetentionTask
from weir.local.server.home.start_failures import start_failure
from weir.local.server.http import home_socket, machine_socket
from weir.local.server.http.connections import (
    BoundedConfig,
    BoundedProtocol,
    Connections,
    reserve_descriptors,
)
from weir.local.server.http.listening import WAITING_MAX, PortUnavailable, address_refused, listen
from weir.local.server.http.machine_socket import SocketNotAvailable
from weir.local.server.http.server_limits import ServerLimits
from weir.local.server.pool import PoolService
from weir.local.server.settings.account_settings import account_refused, accounts_of, whom_it_serves
from weir.local.server.settings.remote_access import RemoteAccessRefused
from weir.local.server.settings.server_settings import ServerSettings
from weir.local.server.submissions.container_checks import ContainerChecks
from weir.local.server.utilization import UtilizationTask
from weir.local.server.views.event_stream import EventStream
from weir.local.server.web_sessions.session_port import listen_for_sessions, session_proxy
from weir.local.usage.gpu_sampling import UtilizationSampler
from weir.model.policy import Policy
from weir.model.scenario import InvalidFile as FileRefused
from weir.notifications.notification_settings import NotificationSettings
from weir.scenario_io.policies import named_policy, read_settings
from weir.service import logging_setup
from weir.service.shutdown_deadline import ShutdownDeadline
from weir.store.store import Store

SWITCH_S = 0.0005
"""Switch interval of the interpreter: a thread that returns from a read waits this long for others."""
FAILED, WRONG_REQUEST = 1, 2
_GRACE_S = 3
_EPOCH_BITS = 48
_LOG = get_logger(__name__)


def _print_now(line: str) -> None:
    """Print a line at once, since a pipe would hold it back. A line for a full disk is lost."""
    with suppress(OSError):
        print(line, flush=True)


def run(settings: ServerSettings, tell: Callable[[str], None] = _print_now) -> int:
    """Serve the pool of a home until SIGTERM or SIGINT; return the exit code.

    `tell` prints the address of the pool and the next steps.
    """
    try:
        limits = ServerLimits()
        if settings.limits_file is not None:
            limits = read_settings(ServerLimits, settings.limits_file)
        if settings.notifications_file is not None:
            notifications = read_settings(NotificationSettings, settings.notifications_file)
            settings = replace(settings, notifications=notifications)
    except FileRefused as error:
        return _refuse(str(error), WRONG_REQUEST)
    logging_setup.set_up(settings.log_level, repeats_max=limits.log_repeats_max, form=settings.log_format)
    sys.setswitchinterval(SWITCH_S)
    refusal = address_refused(settings.host) or account_refused(settings.shared_account)
    if refusal is not None:
        return _refuse(refusal, WRONG_REQUEST)
    home = settings.home
    try:
        policy = Policy() if settings.policy_file is None else named_policy(str(settings.policy_file))
        jobs_umask = os.umask(0o077)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = replace(settings, home=home.resolve())
        node = _shared_node()
        if node is not None:
            settings = replace(settings, installed=True, socket_path=node.socket_path)
        check_home(settings.home, installed=node is not None)
        machine = this_machine(
            settings.home,
            virtual_devices=settings.virtual_gpus,
            pids_max=settings.pids_max,
            groups=None if node is None else node.groups,
            umask=jobs_umask if node is None else UMASK,
        )
        if settings.remote is not None:
            settings.remote.check(accounts_of(settings))
        with ExitStack() as listening:
            sockets = [listening.enter_context(closing(listen(settings.host, settings.port)))]
            remote = None
            if settings.remote is not None:
                address = settings.remote.listen
                opened = listening.enter_context(closing(listen(address.host, address.port, "--listen")))
                remote = TlsListener(address, opened)
            if settings.installed:
                sockets.append(listening.enter_context(machine_socket.listen(settings.socket_path)))
            return _serve(settings, sockets, remote, policy, limits, machine, node, tell)
    except (FileRefused, RemoteAccessRefused) as error:
        return _refuse(str(error), WRONG_REQUEST)
    except (HomeRefused, PortUnavailable, SocketNotAvailable, StateDirInUse, OSError) as error:
        return _refuse(start_failure(error, home, settings.database), FAILED)


def _serve(
    settings: ServerSettings,
    sockets: list[socket.socket],
    remote: TlsListener | None,
    policy: Policy,
    limits: ServerLimits,
    machine: Machine,
    node: RootNode | None,
    tell: Callable[[str], None],
) -> int:
    home = settings.home
    token = admin_token(home)
    connections = reserve_descriptors(limits)
    limits = limits.model_copy(
        update={"connections_max": connections, "streams_max": min(limits.streams_max, connections // 2)}
    )
    audit, reserve = AuditLog(home, to_syslog=settings.audit_to_syslog), DiskReserve(home)
    store = reserve.retry(lambda: Store(settings.database, home, begin_again=settings.begin_again))
    stream = EventStream(epoch=secrets.randbits(_EPOCH_BITS))
    try:
        pool, backend, claim, begun_again = _open_pool(settings, store, policy, limits, machine, node, stream)
    except BaseException:
        store.close()
        raise
    tidying = RetentionTask(store, backend.home, settings.kept, pool.series.forget)
    uses = UtilizationTask(
        pool,
        UtilizationSampler(machine, backend.pods, pool.clock),
        lambda: bool(machine.nvml or backend.pods()),
        tidying.tidy,
    )
    pool.checks["use"] = lambda: uses.trouble
    pool.deadline = ShutdownDeadline(last=lambda: server_file.remove(home))
    browsed = listen_for_sessions(settings.sessions_port, settings.port)
    server = PoolServer(pool, _authenticator(settings, token, pool), stream, audit, remote, browsed)
    url = f"http://{_in_url(settings.host)}:{sockets[0].getsockname()[1]}"
    places = [home, settings.socket_path.parent] if settings.installed else [home]
    try:
        pool.start(backend)
        uses.start()
        own = home_socket.listen_in(home)
        reserve.retry(lambda: server_file.write(home, url, has_socket=own is not None))
        if settings.installed:
            server_file.write(settings.socket_path.parent, url, has_socket=True, mode=0o644)
        begun = {"pool": store.pool_id, "url": url, "begun_again": begun_again}
        audit.write(details={"act": "server started", **begun})
        _greet(tell, url, home, machine, pool.inventory.projects)
        tell(whom_it_serves(settings, pool.accounts))
        server.run(sockets if own is None else [*sockets, own])
    finally:
        pool.deadline.begin()
        audit.write(details={"act": "server stopped"})
        for place in places:
            server_file.remove(place)
        home_socket.remove_from(home)
        pool.deadline.waits_for = "weir-uses"
        uses.close()
        pool.close()
        claim.release()
    return 0


def _authenticator(settings: ServerSettings, token: str, pool: PoolService) -> Authenticator:
    roles = pool.memberships.roles_of
    oidc = None if settings.remote is None else settings.remote.sign_in(pool.accounts, roles)
    now = pool.clock.with_time_off
    return Authenticator(token, pool.store.tokens, now, accounts=pool.accounts, roles=roles, oidc=oidc)


def _open_pool(
    settings: ServerSettings,
    store: Store,
    policy: Policy,
    limits: ServerLimits,
    machine: Machine,
    node: RootNode | None,
    stream: EventStream,
) -> tuple[PoolService, LocalBackend, GpuClaim, bool]:
    """Open the pool and its backend; also return the claim on the GPUs, and True if the pool begins again."""
    home = settings.home
    claim = GpuClaim([device.uuid for device in machine.devices] if machine.nvml is not None else [])
    clock = persistent_clock.resume(home, least_s=store.samples.sampled_s(), jumped=_jumped)
    persistent_clock.keep(home, clock, synced=True)
    accounts = accounts_of(settings)
    pool = PoolService(
        store, machine.node, policy, stream, home=home, clock=clock, limits=limits, accounts=accounts
    )
    pool.device_rules = "" if node is None else node.devices
    real = machine.nvml is not None
    pool.containers = ContainerChecks(limits.containers, machine.device_specifications, needs_devices=real)
    pool.hides_others = settings.hides_others
    pool.ignores_foreign = settings.ignores_foreign
    pool.priority_classes = settings.priority_classes
    pool.prices = settings.prices
    pool.notifications.settings = settings.notifications
    pool.session_headroom.devices_max = settings.session_headroom
    backend = LocalBackend(
        store.journal,
        home,
        machine,
        clock,
        wake=pool.control_thread.wake,
        noted=pool.job_reports.noted,
        refused=pool.job_reports.refused,
        log_max=settings.log_max,
        shared_node=node,
    )
    pool.gpu_memory = backend.gpu_memory
    begun_again = store.has_leftovers
    _end_leftovers(store, backend, clock())
    return pool, backend, claim, begun_again


def _shared_node() -> RootNode | None:
    """Return the node process that started this server for several users; None if there is none."""
    described = os.environ.pop(SOCKETS_VARIABLE, None)

    def end() -> None:
        _LOG.error(
            "node_process_gone", why="Nothing can be started without it: the server ends. Jobs run on."
        )
        os.kill(os.getpid(), signal.SIGTERM)

    return None if described is None else RootNode(described, end)


def _end_leftovers(store: Store, backend: LocalBackend, now_s: float) -> None:
    """End processes of workloads that a restored or new database doesn't know."""
    if not store.has_leftovers:
        return
    uids = {record.launch.uid for record in store.journal.workloads()}
    ended = end_stray_processes(backend.home, uids, now_s, backend.processes)
    if ended:
        _LOG.warning("leftovers_ended", starts=ended)
    store.leftovers_ended()


class PoolServer(uvicorn.Server):
    """A uvicorn server that ends streams before it waits for the ends of connections."""

    def __init__(
        self,
        pool: PoolService,
        authenticator: Authenticator,
        stream: EventStream,
        audit: AuditLog,
        remote: TlsListener | None,
        browsed: socket.socket | None,
    ) -> None:
        self._pool = pool
        listen = None if remote is None else remote.settings
        self._sessions = None if browsed is None else session_proxy(pool, authenticator, browsed, listen)
        self._oidc = authenticator.oidc
        self._remote = remote
        if remote is not None:
            pool.checks["certificate"] = lambda: remote.certificate.trouble
            pool.certificate_ends_s = lambda: remote.certificate.ends_s
        self._stream = stream
        self._connections = Connections(pool.limits)
        config = BoundedConfig(
            create_app(pool, authenticator, audit, listen),
            self._connections,
            access_log=False,
            log_config=None,
            lifespan="off",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        super().__init__(config)
        config.app.state.session_proxy = self._sessions  # type: ignore[union-attr]  # our own application

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        self._stream.open(asyncio.get_running_loop())
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING_MAX)  # uvicorn set the backlog to its limit of concurrent requests
        if self._remote is not None:
            self.servers.append(await self._remote.open(self._protocol_for, WAITING_MAX))
        if self._sessions is not None:
            await self._sessions.open()
        pool = self._pool
        watches = (self._connections.sweep(), pool.node_changes.maintenance.watch(), pool.sweeps.run())
        self._tasks = [
            asyncio.create_task(coroutine)
            for coroutine in (*watches, pool.schedules.watch(), pool.session_headroom.watch())
        ]

    def _protocol_for(self, name: str) -> asyncio.Protocol:
        """Return the protocol of a new connection to a host name: that of a session, or of the pool."""
        if self._sessions is not None and (protocol := self._sessions.protocol_for(name)) is not None:
            return protocol
        config = self.config
        assert isinstance(config, BoundedConfig)
        return BoundedProtocol(config, self.server_state, self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting and answering requests."""
        self._pool.closing = True
        self._stream.close()
        for task in self._tasks:
            task.cancel()
        if self._sessions is not None:
            self._sessions.close()
        await self._pool.what_if.close()
        if self._remote is not None:
            self._remote.close()
        if self._oidc is not None:
            await self._oidc.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal and return: uvicorn would raise the signal again at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {signal_number: signal.signal(signal_number, self.handle_exit) for signal_number in signals}
        try:
            yield
        finally:
            for signal_number, handler in before.items():
                signal.signal(signal_number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop on a signal."""
        self._pool.deadline.begin()
        _LOG.info("stopping", signal=sig)
        self._pool.closing = True
        super().handle_exit(sig, frame)


def _jumped(jump_s: float) -> None:
    """Write the one log line of a jump of the wall clock."""
    _LOG.warning(
        "wall_clock_jumped",
        by_s=round(jump_s, 1),
        why="Limits, pauses and charges don't use it; displayed times follow it from now on.",
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _greet(
    tell: Callable[[str], None], url: str, home: Path, machine: Machine, projects: Sequence[str]
) -> None:
    node = machine.node
    some = "GPU" if node.gpus == 1 else "GPUs"
    kind = f"virtual {some}" if machine.virtual else node.gpu_model or some
    devices = f"{node.gpus} {kind}" if node.gpus else "no GPUs (--virtual-gpus N creates virtual ones)"
    tell(f"Weir is up at {url}: {devices} on {node.name}.")
    tell(f"Its state is in {home}; jobs run on when the server stops, and a new server finds them.")
    tell("Watch it in a browser: weir dashboard")
    gpus = " --gpus 1" if node.gpus else ""
    if not projects:
        tell(f"Try: weir project create NAME --gpus {node.gpus}, since there is no project yet.")
        return
    project = "default" if "default" in projects else projects[0]
    tell(f"Try: weir submit -p {project}{gpus} -- python train.py")


def _refuse(sentence: str, code: int) -> int:
    print(f"weir: {sentence}", file=sys.stderr)
    return code
