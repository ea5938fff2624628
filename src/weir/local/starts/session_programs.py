"""Programs of sessions in a browser: how they are started, and where they listen.

They listen on a socket in the pod's own directory, which its user and the server can enter and no one else.
So they need no token, and nothing but the server's proxy and the user's own processes reaches them.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Final, Literal

VARIABLE = "WEIR_SESSION"
"""Variable of a workload with the kind of its session."""
JUPYTER: Final = "jupyter"
CODE: Final = "code"
Kind = Literal["jupyter", "code"]
SOCKET = "session.sock"
MEMORY_DIRECTORY = "/dev/shm"  # noqa: S108 - of the container alone
"""Directory of a session on a cluster. The runtime mounts it for the pod alone. Its users may write there."""
SOCKET_IN_CONTAINER = f"{MEMORY_DIRECTORY}/{SOCKET}"
SOCKET_PATH_BYTES_MAX = 107
"""Longest path of a socket."""


def kind_of(environment: Iterable[tuple[str, str]]) -> Kind | None:
    """Return the kind of the session of a workload with this environment; None if it has none."""
    kind = dict(environment).get(VARIABLE)
    return JUPYTER if kind == JUPYTER else CODE if kind == CODE else None


def base_path(name: str) -> str:
    """Return the path of a session on the server."""
    return f"/sessions/{name}/"


def keeps_base_path(kind: str) -> bool:
    """Return True for a program that knows its path; others answer as if theirs were /."""
    return kind == JUPYTER


def command_of(
    kind: str, command: Sequence[str], *, own: str, name: str, directory: str, is_root: bool
) -> list[str]:
    """Return the command of a session: the submitted one, and where it listens.

    `own` is the pod's own directory.
    """
    socket = f"{own}/{SOCKET}"
    if kind == CODE:
        options = ["--socket", socket, "--socket-mode", "660", "--auth", "none"]
        return [*command, *options, "--disable-telemetry", "--disable-update-check", directory]
    options = [
        f"--ServerApp.sock={socket}",
        "--ServerApp.sock_mode=0660",
        f"--ServerApp.base_url={base_path(name)}",
        "--ServerApp.allow_remote_access=True",  # the proxy checks host names
        "--ServerApp.open_browser=False",
        "--IdentityProvider.token=",
        "--KernelManager.transport_encryption=auto",  # all accounts reach the ports of kernels
    ]
    return [*command, *options, *(["--allow-root"] if is_root else ())]


def path_too_long(own: str) -> str | None:
    """Return why a program can't listen in a pod's own directory; None if it can."""
    length = len(os.fsencode(f"{own}/{SOCKET}"))
    if length <= SOCKET_PATH_BYTES_MAX:
        return None
    return (
        f"the path of its socket would have {length} bytes, and {SOCKET_PATH_BYTES_MAX} are allowed: "
        "the pool needs a shorter WEIR_HOME"
    )
