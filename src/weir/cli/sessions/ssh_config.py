"""Configuration of ssh for the workloads of a person, and its inclusion in their own.

`ssh weir-NAME`, and every program that uses OpenSSH, finds a workload by it.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.cli.sessions import ssh_files
from weir.cli.sessions.pod_entry import EntryRefused
from weir.cli.sessions.ssh_files import CLIENT_KEY, HOST_PREFIX, KNOWN_HOSTS
from weir.client.address import CLUSTER, HOME, URL

if TYPE_CHECKING:
    from weir.client.api import Pool

_SESSIONS_MAX = 100
_OF_CLUSTER = ("KUBECONFIG", "WEIR_NAMESPACE")
"""Environment variables that select a cluster, which an editor may not have."""
_HEAD = "# Written by `weir ssh`, again at each use. Your own settings belong into ~/.ssh/config.\n"
_DECLINED = "ssh_config.not-included"
_ELSEWHERE = (
    ("IdentitiesOnly", "yes"),
    ("UserKnownHostsFile", "/dev/null"),
    ("GlobalKnownHostsFile", "/dev/null"),
    ("StrictHostKeyChecking", "no"),
    ("LogLevel", "ERROR"),
    ("CheckHostIP", "no"),
    ("PreferredAuthentications", "publickey"),
)
"""Settings for a stream inside another ssh connection, which has checked the host."""


def config_path() -> Path:
    """Return the file of the configuration."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if named.startswith("/") else Path.home() / ".config"
    return base / "weir" / "ssh_config"


def render(hosts: Sequence[str], user: str, *, is_remote: bool = False) -> str:
    """Return the configuration; `hosts` are named in it, so that editors list them.

    `user` is the person's account on the machine of the pool. If that is another machine (`is_remote`), the
    stream is inside of one of ssh to it, which has checked its key.

    Raises:
        EntryRefused: the account can't be written there.
    """
    listed = "".join(f"Host {host}\n" for host in sorted(hosts))
    files = f"{_as_is(str(ssh_files.remote_keys() if is_remote else ssh_files.client_files()))}/%n"
    local_settings = [
        ("IdentitiesOnly", "yes"),
        ("UserKnownHostsFile", _quoted(f"{files}/{KNOWN_HOSTS}")),
        ("GlobalKnownHostsFile", "/dev/null"),
        ("StrictHostKeyChecking", "yes"),
        ("CheckHostIP", "no"),
        ("PreferredAuthentications", "publickey"),
    ]
    settings = [
        ("ProxyCommand", f"{_as_is(shlex.join(own_command()))} session pipe '%n'"),
        ("User", ssh_files.account(user)),
        ("IdentityFile", _quoted(f"{files}/{CLIENT_KEY}")),
        *(_ELSEWHERE if is_remote else local_settings),
    ]
    return _configuration(listed, settings)


def render_for_cluster(users: Mapping[str, str]) -> str:
    """Return the configuration for sessions on a cluster: the account of each host is its container's.

    The stream is inside of one of TLS to the API server, which has checked the person. Without signs of life
    some proxies of API servers would end a connection.
    """
    hosts = "".join(f"Host {host}\n  User {user}\n" for host, user in sorted(users.items()))
    files = f"{_as_is(str(ssh_files.remote_keys()))}/%n"
    settings = [
        ("ProxyCommand", f"{_as_is(shlex.join(own_command()))} session pipe --user '%r' -- '%n'"),
        ("User", "root"),
        ("IdentityFile", _quoted(f"{files}/{CLIENT_KEY}")),
        *_ELSEWHERE,
        ("ServerAliveInterval", "30"),
    ]
    return _configuration(hosts, settings)


def _configuration(hosts: str, settings: Sequence[tuple[str, str]]) -> str:
    """Return the configuration with these hosts, and settings of all of them."""
    body = "".join(f"  {key} {value}\n" for key, value in settings)
    return f"{_HEAD}{hosts}Host {HOST_PREFIX}*\n{body}"


def _as_is(text: str) -> str:
    """Return a text escaped against the substitutions of ssh."""
    return text.replace("%", "%%")


def own_command() -> list[str]:
    """Return the command of this program, for the pool that it uses now."""
    own = [HOME, URL, *(_OF_CLUSTER if os.environ.get(URL, "").startswith(CLUSTER) else ())]
    pool = [f"{key}={os.environ[key]}" for key in own if os.environ.get(key)]
    return [*(["/usr/bin/env", *pool] if pool else []), sys.executable, "-P", "-m", "weir"]


def configuration(pool: "Pool") -> str:
    """Return the configuration of a person for a pool."""
    person = pool.whoami().user
    is_remote = pool.address.ssh is not None
    user = person if is_remote else ssh_files.user_name()
    ssh_files.forget_ended()
    return render(hosts_of(pool, person), user, is_remote=is_remote)


def hosts_of(pool: "Pool", person: str) -> list[str]:
    """Return the hosts of a person's interactive workloads."""
    rows = pool.page(user=person, type="build", limit=_SESSIONS_MAX).items
    hosts = []
    for row in rows:
        try:
            hosts.append(ssh_files.host_alias(row.name))
        except EntryRefused:
            continue  # ssh can't use such a name
    return hosts


def write(text: str) -> Path:
    """Replace the configuration; return its path."""
    path = config_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(path, text)
    return path


def offer_inclusion(path: Path) -> None:
    """Offer once to include the file in the person's own configuration; nothing without a terminal."""
    own = Path.home() / ".ssh" / "config"
    declined = path.with_name(_DECLINED)
    line = f"Include {_quoted(str(path))}"
    if _includes(own, line) or declined.exists() or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print(f"With this line at the top of {own}, `ssh` and editors know your workloads:", file=sys.stderr)
    print(f"  {line}\nAdd it? [Y/n] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print(file=sys.stderr)
        return  # no answer from the terminal
    if answer.strip().lower() not in ("", "y", "yes"):
        declined.touch()
        print(f"Not added. Delete {declined} to be asked again.", file=sys.stderr)
        return
    own.parent.mkdir(mode=0o700, exist_ok=True)
    present = own.read_text() if own.exists() else ""
    _replace(own.resolve(), f"{line}\n{present}")


def _includes(own: Path, line: str) -> bool:
    try:
        return line in own.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return False


def _replace(path: Path, text: str) -> None:
    """Replace a file of the user's with its mode; a new one is theirs alone."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.chmod(mode)
    beside.replace(path)


def _quoted(path: str) -> str:
    return f'"{path}"' if " " in path else path
