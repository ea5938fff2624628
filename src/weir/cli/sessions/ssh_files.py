"""Files of a session for OpenSSH: keys, and the configuration of sshd.

They lie in the pod's own directory, for its user alone, and its supervisor deletes them when it ends.
A link in the user's state leads the client there by the name of the workload.
"""

import os
import pwd
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from weir.cli.pod_entry import EntryRefused
from weir.client.logins import directory as state_directory
from weir.local import job_files
from weir.local.containers.leftovers import SESSION
from weir.local.tree_removal import remove_tree

CLIENT_KEY, HOST_KEY, KNOWN_HOSTS, SSHD_CONFIG = "client_key", "host_key", "known_hosts", "sshd_config"
FURTHER_KEYS = "authorized_keys"
"""Keys of clients on other machines."""
_KEYS_BYTES_MOST = 1 << 16
_AS_IS = "surrogateescape"
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


def make(own: str, name: str, environment: Mapping[str, str], key: str | None = None) -> Path:
    """Make the files of a pod's session unless they exist, and link them; return the directory.

    `own` is the pod's own directory, `environment` that of its process, and `key` that of a client on another
    machine, which is let in too. A container may change everything in the directory while this runs, so each
    file is reached by the open directory and through no link.

    Raises:
        EntryRefused: they can't be made, or the key isn't one.
    """
    if key is not None and _PUBLIC_KEY.fullmatch(key) is None:
        raise EntryRefused("--key isn't the public key of a client: it is made by `weir ssh`", 2)
    directory = Path(own) / SESSION
    try:
        with _opened_pod(own) as pod:
            if not _has_keys(pod):
                _make_keys(pod, host_alias(name))
            with _opened(SESSION, pod) as session:
                _write(session, SSHD_CONFIG, sshd_config(directory, environment).encode(errors=_AS_IS))
                if key is not None:
                    _authorize(session, key)
        _link(name, directory)
    except subprocess.CalledProcessError as error:
        raise EntryRefused(f"ssh-keygen failed: {error.stderr.decode(errors='replace').strip()}") from None
    except OSError as error:
        if error.filename == "ssh-keygen":
            raise EntryRefused("ssh-keygen isn't installed: run `sudo apt install openssh-client`") from None
        raise EntryRefused(f"{directory}: {error.filename}: {error.strerror}") from None
    return directory


def _authorize(session: int, key: str) -> None:
    """Let the key of a client on another machine in to a session."""
    text = job_files.read_at(session, FURTHER_KEYS, _KEYS_BYTES_MOST)
    lines = text.decode("ascii", "replace").splitlines() if isinstance(text, bytes) else []
    present = [line for line in lines if _PUBLIC_KEY.fullmatch(line)]
    if key not in present:
        _write(session, FURTHER_KEYS, "".join(f"{each}\n" for each in [*present, key]).encode())


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
    text = f"{account(user)}\n".encode()
    with _opened(str(remote_keys() / host_alias(name))) as directory:
        _write(directory, _USER, text)


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


@contextmanager
def _opened_pod(own: str) -> Iterator[int]:
    """Open the directory of a pod until the block ends.

    Raises:
        EntryRefused: it can't be opened.
    """
    pod = job_files.open_directory(own)
    if not isinstance(pod, int):
        raise EntryRefused(pod.sentence.rstrip(".") if pod else "its process is over")
    try:
        yield pod
    finally:
        os.close(pod)


@contextmanager
def _opened(path: str, above: int | None = None) -> Iterator[int]:
    """Open a directory, which is no link, until the block ends."""
    directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        yield directory
    finally:
        os.close(directory)


def _has_keys(pod: int) -> bool:
    """Return True if the files of a session are complete."""
    try:
        with _opened(SESSION, pod) as session:
            return stat.S_ISREG(os.stat(HOST_KEY, dir_fd=session, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _make_keys(pod: int, alias: str) -> None:
    """Make the keys in a directory of their own, which gets its name when they are complete."""
    files = _keys(alias)
    beside = f"{SESSION}.{os.urandom(4).hex()}"
    os.mkdir(beside, 0o700, dir_fd=pod)
    try:
        with _opened(beside, pod) as directory:
            for name, text in files.items():
                _write(directory, name, text)
        os.rename(beside, SESSION, src_dir_fd=pod, dst_dir_fd=pod)  # one that is empty is replaced
    except OSError:
        remove_tree(pod, beside)
        if not _has_keys(pod):  # another connection wasn't first
            raise


def _keys(alias: str) -> dict[str, bytes]:
    """Return new files of a session, made outside of the directory of the pod."""
    state = state_directory()
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f"{SESSION}.", dir=state) as private:
        for name in (HOST_KEY, CLIENT_KEY):
            _make_key(Path(private, name), alias)
        files = {each.name: each.read_bytes() for each in Path(private).iterdir()}
    public = files[f"{HOST_KEY}.pub"].split()[:2]
    return {**files, KNOWN_HOSTS: b"* " + b" ".join(public) + b"\n"}  # the file is for this host alone


def _make_key(path: Path, comment: str) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: S603


def _write(directory: int, name: str, text: bytes) -> None:
    """Replace a file of an open directory, which only its owner can read."""
    beside = f"{name}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(text)
    os.replace(beside, name, src_dir_fd=directory, dst_dir_fd=directory)


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
