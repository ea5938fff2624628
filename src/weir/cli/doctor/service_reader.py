"""Facts of the pool that is installed on a machine: its socket, its server, its port and its program."""

import json
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weir.cli.doctor.facts import ServiceFacts
from weir.cli.install.host import Host
from weir.cli.install.plan import SOCKET_DIRECTORY
from weir.cli.install.program import why_unsafe
from weir.cli.install.server_status import pool_status
from weir.cli.install.settings import InstallSettings
from weir.cli.install.unit import UNIT
from weir.client.errors import PoolError
from weir.user_names import user_name
from weir.version import __version__

DEFAULT_PORT = 9347
_LISTENS = "0A"
_EVERYONE = 0o666


def service_facts(host: Host, settings: InstallSettings | None, systemd: int | None) -> ServiceFacts:
    """Return the facts of the installed pool."""
    owner, closed, port = "", False, configured_port(() if settings is None else settings.options)
    with suppress(OSError):
        owner = user_name(SOCKET_DIRECTORY.stat().st_uid)
        mode = (SOCKET_DIRECTORY / "weir.sock").stat().st_mode
        closed = stat.S_IMODE(mode) & _EVERYONE != _EVERYONE
    with suppress(OSError, ValueError, TypeError, KeyError):
        port = int(str(_described()["url"]).rpartition(":")[2])
    version, problem, trouble, certificate_left_s = "", "", "", None
    try:
        status = pool_status(SOCKET_DIRECTORY)
        version, trouble = status.version, status.trouble or ""
        if status.certificate_ends_s is not None:
            certificate_left_s = status.certificate_ends_s - time.time()
    except (PoolError, ValueError) as error:
        problem = str(error)
    enabled = None if systemd is None else host.succeeds("systemctl", "is-enabled", "--quiet", UNIT)
    return ServiceFacts(
        installed=settings is not None,
        systemd=systemd is not None,
        enabled=enabled,
        version=version,
        own_version=__version__,
        problem=problem,
        trouble=trouble,
        owner=owner,
        expected_owner="" if settings is None else settings.user,
        closed_socket=closed,
        port=port,
        port_owner=port_owner(port),
        unsafe=why_unsafe() or "",
        certificate_left_s=certificate_left_s,
    )


def configured_port(options: Sequence[str]) -> int:
    """Return the port that options of `weir up` name, or the default one."""
    port = DEFAULT_PORT
    for word, following in zip(options, (*options[1:], ""), strict=False):
        name, _, value = word.partition("=")
        written = value or following
        if name == "--port" and written.isascii() and written.isdigit():
            port = int(written)
    return port


def node_pid() -> int | None:
    """Return the node process, the parent of the installed pool's server; None if none runs."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        status = Path(f"/proc/{int(str(_described()['pid']))}/status").read_text("utf-8", "replace")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    return None


def port_owner(port: int, proc: Path = Path("/proc")) -> str:
    """Return the user that listens on a port of this machine; empty if it is free."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (proc / "net" / table).read_text("ascii").splitlines()[1:]:
                fields = line.split(maxsplit=8)
                if fields[3] == _LISTENS and fields[1].endswith(f":{port:04X}"):
                    return user_name(int(fields[7]))
    return ""


def _described() -> dict[str, object]:
    """Return the address and the process of a server, from the file beside its socket."""
    file = os.open(SOCKET_DIRECTORY / "server.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(file, "rb") as opened:
        description = json.loads(opened.read(1 << 16))
    return description if isinstance(description, dict) else {}
