"""Files of a session for OpenSSH: keys, and the configuration of sshd.

They lie in the pod's own directory, for its user alone, and its supervisor deletes them when it ends.
A link in the user's state leads the client there by the name of the workload.
"""

import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from weir.cli.pod_entry import EntryRefused
from weir.client.logins import directory as state_directory
from weir.local.containers.leftovers import SESSION

CLIENT_KEY, HOST_KEY, KNOWN_HOSTS, SSHD_CONFIG = "client_key", "host_key", "known_hosts", "sshd_config"
FURTHER_KEYS = "authorized_keys"
"""Keys of clients on other machines."""
_PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{60,80}={0,2}", re.ASCII)
LINKS, REMOTE_KEYS = "sessions", "remote-sessions"
HOST_PREFIX = "weir-"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SSHD_SETS = frozenset(("TERM", "SHLVL", "_", "PWD", "OLDPWD"))
_UNQUOTED = re.compile(r"[\n\r\0]")
_ACCOUNT = re.compile(r"\w[\w.@+\\-]{0,99}")
_USER, _ROOT = "user", "root"
"""File with the account of a session on a cluster."""
BASE_SETTINGS = (
    ("StrictModes", "no"),  # the directory is the user's alone; those above it are the pool's
    ("AuthenticationMethods", "publickey"),
    ("PermitRootLogin", "prohibit-password"),
    ("UsePAM", "no"),
    ("LogLevel", "ERROR"),  # it goes to the error output of ssh
    ("PidFile", "none"),
    ("PrintMotd", "no"),
    ("PrintLastLog", "no"),
    ("X11Forwarding", "no"),
    ("GatewayPorts", "no"),
    ("StreamLocalBindMask", "0177"),
    ("StreamLocalBindUnlink", "yes"),
    ("Subsystem", "sftp internal-sftp"),
)
"""Settings of each sshd of a session."""


def host_alias(name: str) -> str:
    """Return the name by which ssh knows a workload.

    Raises:
        EntryRefused: its name can't be part of that of a host.
    """
    if _NAME.fullmatch(name) is None:
        right = "letters, digits, dots, hyphens and underscores"
        raise EntryRefused(f"{name!r} can't be a host of ssh: use `weir shell`, or a name of {right}")
    return f"{HOST_PREFIX}{name}"


def account(user: str) -> str:
    """Return the name of an account, which a container or another machine says.

    It becomes a line of the configuration of ssh, and a word of a command there.

    Raises:
        EntryRefused: it can't be part of them.
    """
    if _ACCOUNT.fullmatch(user) is None:
        right = "letters, digits and . _ @ + - alone"
        raise EntryRefused(f"{user[:80]!r} is no account of ssh: its name has {right}")
    return user


def make(own: str, name: str, environment: Mapping[str, str]) -> Path:
    """Make the files of a pod's session unless they exist, and link them; return the directory.

    `own` is the pod's own directory, `environment` that of its process.

    Raises:
        EntryRefused: they can't be made.
    """
    directory = Path(own) / SESSION
    try:
        if not (directory / HOST_KEY).is_file():
            _make_keys(directory, host_alias(name))
        _write(directory / SSHD_CONFIG, sshd_config(directory, environment))
        _link(name, directory)
    except subprocess.CalledProcessError as error:
        raise EntryRefused(f"ssh-keygen failed: {error.stderr.decode(errors='replace').strip()}") from None
    except FileNotFoundError as error:
        if error.filename == "ssh-keygen":
            raise EntryRefused("ssh-keygen isn't installed: run `sudo apt install openssh-client`") from None
        raise EntryRefused(f"{error.filename}: {error.strerror}") from None
    except OSError as error:
        raise EntryRefused(f"{error.filename}: {error.strerror}") from None
    return directory


def authorize(directory: Path, key: str) -> None:
    """Let the key of a client on another machine in to a session.

    Raises:
        EntryRefused: it isn't a key.
    """
    if _PUBLIC_KEY.fullmatch(key) is None:
        raise EntryRefused("--key isn't the public key of a client: it is made by `weir ssh`", 2)
    path = directory / FURTHER_KEYS
    present = path.read_text("ascii").splitlines() if path.exists() else []
    if key not in present:
        _write(path, "".join(f"{each}\n" for each in [*present, key]))


def client_key(name: str) -> str:
    """Return the public key of this machine for a workload on another one; make it if there is none.

    Raises:
        EntryRefused: it can't be made.
    """
    directory = remote_keys() / host_alias(name)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (directory / f"{CLIENT_KEY}.pub").is_file():
            _make_key(directory / CLIENT_KEY, host_alias(name))
        return " ".join((directory / f"{CLIENT_KEY}.pub").read_text("ascii").split()[:2])
    except (OSError, subprocess.CalledProcessError) as error:
        raise EntryRefused(f"a key for {name} can't be made: {error}") from None


def sshd_config(directory: Path, environment: Mapping[str, str]) -> str:
    """Return the configuration of an sshd that lets in the session's key, as the user whom it runs as."""
    settings = [
        ("HostKey", _quoted(str(directory / HOST_KEY))),
        (
            "AuthorizedKeysFile",
            f"{_quoted(str(directory / f'{CLIENT_KEY}.pub'))} {_quoted(str(directory / FURTHER_KEYS))}",
        ),
        *BASE_SETTINGS,
    ]
    if pairs := [f"{key}={value}" for key, value in sorted(environment.items()) if _is_passed(key, value)]:
        settings.append(("SetEnv", " ".join(map(_quoted, pairs))))  # sshd reads the first such line alone
    return "".join(f"{key} {value}\n" for key, value in settings)


def links() -> Path:
    """Return the directory with a link to the files of each session, by its name for ssh."""
    return state_directory() / LINKS


def remote_keys() -> Path:
    """Return the directory with the key of this machine for each session on another one."""
    return state_directory() / REMOTE_KEYS


def remote_names() -> set[str]:
    """Return the names of the sessions elsewhere that have a key of this machine."""
    try:
        return {each.name.removeprefix(HOST_PREFIX) for each in remote_keys().iterdir()}
    except OSError:
        return set()


def keep_user(name: str, user: str) -> None:
    """Keep the account of a session on a cluster, which its image decides.

    Raises:
        EntryRefused: it can't be one.
    """
    _write(remote_keys() / host_alias(name) / _USER, f"{account(user)}\n")


def user_of(name: str) -> str:
    """Return the account of a session on a cluster; root if it isn't known."""
    try:
        return account((remote_keys() / host_alias(name) / _USER).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError, EntryRefused):
        return _ROOT


def _is_passed(key: str, value: str) -> bool:
    """Return False for variables that sshd sets, and for those that its configuration can't contain."""
    return _VARIABLE.fullmatch(key) is not None and key not in _SSHD_SETS and _UNQUOTED.search(value) is None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _make_keys(directory: Path, alias: str) -> None:
    """Make the keys in a directory of their own, which gets its name when they are complete."""
    with suppress(FileNotFoundError):
        directory.rmdir()  # a process that was killed may have left it empty
    beside = directory.with_name(f"{SESSION}.{os.getpid()}")
    beside.mkdir(mode=0o700)
    beside.chmod(0o700)
    for name in (HOST_KEY, CLIENT_KEY):
        _make_key(beside / name, alias)
    public = (beside / f"{HOST_KEY}.pub").read_text("ascii").split()[:2]
    _write(beside / KNOWN_HOSTS, f"* {' '.join(public)}\n")  # the file is for this host alone
    try:
        beside.rename(directory)
    except OSError:
        if not (directory / HOST_KEY).is_file():
            raise
        for each in beside.iterdir():  # another connection was first
            each.unlink()
        beside.rmdir()


def _make_key(path: Path, comment: str) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: S603


def _write(path: Path, text: str) -> None:
    """Replace a file that only its owner can read."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    beside.replace(path)


def _link(name: str, directory: Path) -> None:
    """Let the client find the files by the name of the workload, and forget sessions that are over."""
    above = links()
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in above.iterdir():
        if each.is_symlink() and not each.exists():
            each.unlink(missing_ok=True)
    beside = above / f".{os.getpid()}"
    beside.unlink(missing_ok=True)
    beside.symlink_to(directory)
    beside.replace(above / host_alias(name))


def user_name() -> str:
    """Return the user name of this process, under which sshd accepts a login."""
    return pwd.getpwuid(os.getuid()).pw_name
