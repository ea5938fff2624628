"""`weir up`: the pool on this machine, until it is told to stop. Its jobs run on without it."""

import asyncio
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType

import uvicorn
from structlog import get_logger

from weir.backends.local.backend import LOG_MOST, LocalBackend
from weir.backends.local.home import InUse
from weir.backends.local.machine import Machine, this_machine
from weir.backends.local.sampling import Sampler
from weir.model.files.policies import read_policy
from weir.model.policy import Policy
from weir.model.scenario import Refused as FileRefused
from weir.server import log
from weir.server.app import application
from weir.server.auth import Door, admin_token
from weir.server.live import Hub
from weir.server.pool import Pool
from weir.server.tidying import OUTPUT_KEPT_S, Tidying
from weir.server.uses import Uses
from weir.store import Store, StoreFailed

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9347
SERVER_FILE = "server.json"
SWITCH_S = 0.0005
"""How long one thread may keep the interpreter: whoever comes back from a read waits so long for each."""
FAILED, WRONG_REQUEST = 1, 2
_GRACE_S = 3
_WAITING_MOST = 1024
_LOG = get_logger(__name__)


def run(
    home: Path,
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    virtual_gpus: int | None = None,
    policy_file: Path | None = None,
    database: str | None = None,
    log_most: int = LOG_MOST,
    output_kept_s: float = OUTPUT_KEPT_S,
    log_level: str = "info",
    tell: Callable[[str], None] = print,
) -> int:
    """Serve the pool of a home until SIGTERM or SIGINT; the exit code.

    Args:
        home: where its state lives; made if it is missing.
        host: the address to listen on; only one of this machine itself.
        port: 0 takes any that is free.
        virtual_gpus: so many devices that aren't there, instead of those that are.
        policy_file: what decisions go by; the preset `fair` if none.
        database: an SQLAlchemy URL in place of the file in the home.
        log_most: bytes of output that are kept of each start of a pod; 0 for all.
        output_kept_s: how long the output of a workload is kept once it is over.
        log_level: of the server's own log, on standard error.
        tell: what says where it is and how to go on.
    """
    log.set_up(log_level)
    sys.setswitchinterval(SWITCH_S)
    if (refusal := _address_refused(host)) is not None:
        return _refuse(refusal, WRONG_REQUEST)
    try:
        policy = Policy() if policy_file is None else read_policy(policy_file)
        os.umask(0o077)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home = home.resolve()
        with closing(_listening(host, port)) as listening:
            return _serve(
                home, host, [listening], policy, virtual_gpus, database, log_most, output_kept_s, tell
            )
    except FileRefused as error:
        return _refuse(str(error), WRONG_REQUEST)
    except (_CantListen, InUse, StoreFailed) as error:
        return _refuse(f"Can't begin: {str(error).rstrip('.')}.", FAILED)
    except OSError as error:
        said = f"Can't keep state in {error.filename or home}: {_words(error)}"
        return _refuse(f"{said}. Name another home with WEIR_HOME.", FAILED)


def _serve(
    home: Path,
    host: str,
    sockets: list[socket.socket],
    policy: Policy,
    virtual_gpus: int | None,
    database: str | None,
    log_most: int,
    output_kept_s: float,
    tell: Callable[[str], None],
) -> int:
    token = admin_token(home)
    machine = this_machine(home, virtual_devices=virtual_gpus)
    store = Store(database, home)
    hub = Hub(epoch=int(time.time()))
    try:
        pool = Pool(store, machine.node, policy, hub, home=home)
        backend = LocalBackend(
            store.journal,
            home,
            machine,
            wake=pool.turns.wake,
            noted=lambda pod, uid, note: pool.noted(pod, uid, note.step, note.values),
            log_most=log_most,
        )
    except BaseException:
        store.close()
        raise
    tidying = Tidying(store, backend.home, output_kept_s)
    uses = Uses(
        pool, Sampler(machine, backend.pods), lambda: bool(machine.nvml or backend.pods()), tidying.tidy
    )
    server = Server(pool, Door(token, store), hub)
    url = f"http://{_in_url(host)}:{sockets[0].getsockname()[1]}"
    try:
        pool.start(backend)
        uses.start()
        _write_place(home, url)
        _greet(tell, url, home, machine)
        server.run(sockets)
    finally:
        _forget_place(home)
        uses.close()
        pool.close()
    return 0


class _CantListen(Exception):
    """The address is someone else's, or none of ours."""


class Server(uvicorn.Server):
    """uvicorn, ending streams before it waits for connections to end."""

    def __init__(self, pool: Pool, door: Door, hub: Hub) -> None:
        self._pool = pool
        self._hub = hub
        config = uvicorn.Config(
            application(pool, door),
            access_log=False,
            log_config=None,
            lifespan="off",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            timeout_keep_alive=75,
            ws="none",
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        self._hub.open(asyncio.get_running_loop())
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer nobody any more."""
        self._pool.closing = True
        self._hub.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and then go on here: uvicorn would have it end the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {each: signal.signal(each, self.handle_exit) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop."""
        _LOG.info("stopping", signal=sig)
        self._pool.closing = True
        super().handle_exit(sig, frame)


def _address_refused(host: str) -> str | None:
    """Why an address isn't listened on; None if it is one of this machine itself."""
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host == "localhost":
        return None
    return (
        f"{host} can be reached from other machines, and there is no authentication for those yet: "
        f"listen on {DEFAULT_HOST} and come in through a tunnel (ssh -L) or a proxy that asks who comes."
    )


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_WAITING_MOST)  # who comes before the first answer waits for it
    except OSError as error:
        listening.close()
        said = f"{host} port {port} can't be listened on ({_words(error)}): name another one with --port"
        raise _CantListen(said) from None
    listening.set_inheritable(False)
    return listening


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _write_place(home: Path, url: str) -> None:
    """Where the server is, for whoever looks for it."""
    beside = home / f"{SERVER_FILE}.new"
    beside.write_text(json.dumps({"pid": os.getpid(), "url": url}) + "\n", "utf-8")
    beside.replace(home / SERVER_FILE)


def _forget_place(home: Path) -> None:
    path = home / SERVER_FILE
    with suppress(OSError, ValueError):
        if json.loads(path.read_text("utf-8")).get("pid") == os.getpid():
            path.unlink()


def _greet(tell: Callable[[str], None], url: str, home: Path, machine: Machine) -> None:
    node = machine.node
    kind = "virtual GPUs" if machine.virtual else node.gpu_model or "GPUs"
    devices = f"{node.gpus} {kind}" if node.gpus else "no GPUs (--virtual-gpus N makes some up)"
    tell(f"Weir is up at {url}: {devices} on {node.name}.")
    tell(f"Its state is in {home}; jobs go on when it stops, and are found again.")
    gpus = " --gpus 1" if node.gpus else ""
    tell(f"Try: weir submit -p default{gpus} -- python train.py")


def _words(error: OSError) -> str:
    said = error.strerror or str(error)
    return said[:1].lower() + said[1:]


def _refuse(sentence: str, code: int) -> int:
    print(f"weir: {sentence}", file=sys.stderr)
    return code
