"""Files of a session for OpenSSH: keys, and the configuration of sshd.

The files of sshd lie in the pod's own directory, for its user alone, and its supervisor deletes them when it
ends. A container can change them. So the client's files lie in the user's state, by the name of the workload,
and ssh reads nothing that a container wrote.
"""

import fcntl
import os
import pwd
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from weir.cli.sessions.pod_entry import EntryRefused
from weir.client.logins import directory as state_directory
from weir.local.containers.leftovers import SESSION
from weir.local.files import job_files
from weir.local.files.tree_removal import remove_tree

CLIENT_KEY, HOST_KEY, KNOWN_HOSTS, SSHD_CONFIG = "client_key", "host_key", "known_hosts", "sshd_config"
FURTHER_KEYS = "authorized_keys"
"""Keys of clients on other machines."""
_KEYS_BYTES_MAX = 1 << 16
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
_POD = "pod"
"""File with the path of the pod that a client's files are for."""
BASE_SETTINGS = (
    ("StrictModes", "no"),  # the directory belongs to the user, those above it to the pool
    ("AuthenticationMethods", "publickey"),
    ("PermitRootLogin", "prohibit-password"),
    ("UsePAM", "no"),
    ("LogLevel", "ERROR"),  # the log goes to the error output of ssh
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
    """Return the ssh host name of a workload.

    Raises:
        EntryRefused: its name can't be part of that of a host.
    """
    if _NAME.fullmatch(name) is None:
        right = "letters, digits, dots, hyphens and underscores"
        raise EntryRefused(f"{name!r} can't be a host of ssh: use `weir shell`, or a name of {right}")
    return f"{HOST_PREFIX}{name}"


def account(user: str) -> str:
    """Return a validated account name from a container or another machine.

    It becomes a line of the configuration of ssh, and a word of a command there.

    Raises:
        EntryRefused: it can't be part of them.
    """
    if _ACCOUNT.fullmatch(user) is None:
        right = "letters, digits and . _ @ + - alone"
        raise EntryRefused(f"{user[:80]!r} is no account of ssh: its name has {right}")
    return user


def make(own: str, name: str, environment: Mapping[str, str], key: str | None = None) -> Path:
    """Make the files of a pod's session and of its client unless they exist; return the directory in the pod.

    `own` is the pod's own directory, `environment` that of its process, and `key` that of a client on another
    machine, which is let in too. A container may change everything in the directory while this runs, so each
    file is reached by the open directory and through no link.

    Raises:
        EntryRefused: they can't be made, or the key isn't one.
    """
    if key is not None and _PUBLIC_KEY.fullmatch(key) is None:
        raise EntryRefused("--key isn't the public key of a client: `weir ssh` makes that key", 2)
    directory = Path(own) / SESSION
    try:
        with _opened_client(host_alias(name)) as client, _opened_pod(own) as pod:
            public = _public_key(client, host_alias(name))
            with suppress(FileExistsError):
                os.mkdir(SESSION, 0o700, dir_fd=pod)
            with _opened(SESSION, pod) as session:
                _keep_host_key(session, client, host_alias(name))
                if _read(session, f"{CLIENT_KEY}.pub") != public:
                    _write(session, f"{CLIENT_KEY}.pub", public)
                _write(session, SSHD_CONFIG, sshd_config(directory, environment).encode(errors=_AS_IS))
                if key is not None:
                    _authorize(session, key)
            _write(client, _POD, os.fsencode(own))
    except subprocess.CalledProcessError as error:
        raise EntryRefused(f"ssh-keygen failed: {error.stderr.decode(errors='replace').strip()}") from None
    except OSError as error:
        if error.filename == "ssh-keygen":
            raise EntryRefused("ssh-keygen isn't installed: run `sudo apt install openssh-client`") from None
        raise EntryRefused(f"{directory}: {error.filename}: {error.strerror}") from None
    return directory


def _authorize(session: int, key: str) -> None:
    """Add the key of a client on another machine to the session's authorized keys."""
    lines = _read(session, FURTHER_KEYS).decode("ascii", "replace").splitlines()
    present = [line for line in lines if _PUBLIC_KEY.fullmatch(line)]
    if key not in present:
        _write(session, FURTHER_KEYS, "".join(f"{line}\n" for line in [*present, key]).encode())


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
        settings.append(("SetEnv", " ".join(map(_quoted, pairs))))  # sshd reads only the first such line
    return "".join(f"{key} {value}\n" for key, value in settings)


def client_files() -> Path:
    """Return the directory with the client's files of each session, by its name for ssh."""
    return state_directory() / LINKS


def remote_keys() -> Path:
    """Return the directory with the key of this machine for each session on another one."""
    return state_directory() / REMOTE_KEYS


def remote_names() -> set[str]:
    """Return the names of the sessions elsewhere that have a key of this machine."""
    try:
        return {path.name.removeprefix(HOST_PREFIX) for path in remote_keys().iterdir()}
    except OSError:
        return set()


def keep_user(name: str, user: str) -> None:
    """Store the account of a session on a cluster, which its image defines.

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
    """Return False for variables that sshd sets itself, or that its configuration can't contain."""
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


@contextmanager
def _locked_client_files() -> Iterator[int]:
    """Open the directory of all client files until the block ends, for one process at a time."""
    path = client_files()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _opened(str(path)) as above:
            yield above
    finally:
        os.close(lock)


@contextmanager
def _opened_client(alias: str) -> Iterator[int]:
    """Open the directory of a client's files until the block ends, for one process at a time.

    ssh may read its key while the files of a new session of the same name are made: that key stays.
    """
    with _locked_client_files() as above:
        _forget_ended(above, keep=alias)
        with suppress(FileExistsError):
            os.mkdir(alias, 0o700, dir_fd=above)
        with _opened(alias, above) as client:
            yield client


def forget_ended() -> None:
    """Delete the client's files of sessions that are over."""
    with suppress(OSError), _locked_client_files() as above:
        _forget_ended(above)


def _forget_ended(above: int, keep: str = "") -> None:
    for path in client_files().iterdir():
        if path.name != keep and not _is_live(path):
            remove_tree(above, path.name)


def _is_live(files: Path) -> bool:
    """Return True if the pod that a client's files are for has a session."""
    try:
        own = os.fsdecode((files / _POD).read_bytes())
        return Path(own, SESSION).is_dir()
    except OSError:
        return False


def _public_key(client: int, alias: str) -> bytes:
    """Return the public key of a client; make the key if there is none."""
    public = _read(client, f"{CLIENT_KEY}.pub")
    if not public or not _read(client, CLIENT_KEY):
        files = _new_key(CLIENT_KEY, alias)
        for name, text in files.items():
            _write(client, name, text)
        public = files[f"{CLIENT_KEY}.pub"]
    return public


def _keep_host_key(session: int, client: int, alias: str) -> None:
    """Create the host key of sshd, unless the client knows the present one."""
    public = f"{HOST_KEY}.pub"
    if _is_file(session, HOST_KEY) and _known_hosts(_read(session, public)) == _read(client, KNOWN_HOSTS):
        return
    files = _new_key(HOST_KEY, alias)
    for name, text in files.items():
        _write(session, name, text)
    _write(client, KNOWN_HOSTS, _known_hosts(files[public]))


def _known_hosts(public: bytes) -> bytes:
    """Return the content of a known_hosts file for one host with this key."""
    return b"* " + b" ".join(public.split()[:2]) + b"\n"


def _is_file(directory: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _read(directory: int, name: str) -> bytes:
    """Return the content of a small regular file of an open directory; nothing of all others."""
    text = job_files.read_at(directory, name, _KEYS_BYTES_MAX)
    return text if isinstance(text, bytes) else b""


def _new_key(name: str, alias: str) -> dict[str, bytes]:
    """Return the files of a new key, made outside of the directory of the pod."""
    with TemporaryDirectory(prefix=f"{SESSION}.", dir=state_directory()) as private:
        _make_key(Path(private, name), alias)
        return {path.name: path.read_bytes() for path in Path(private).iterdir()}


def _make_key(path: Path, comment: str) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: S603


def _write(directory: int, name: str, text: bytes) -> None:
    """Replace a file of an open directory, readable by its owner only."""
    beside = f"{name}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(text)
    os.replace(beside, name, src_dir_fd=directory, dst_dir_fd=directory)


def user_name() -> str:
    """Return the user name of this process, under which sshd accepts a login."""
    return pwd.getpwuid(os.getuid()).pw_name
