"""The pod of a session: people enter it, or its program listens on a socket in the container."""

from collections.abc import Mapping
from typing import Any

from weir.cli.cluster.errors import wrong
from weir.local.starts.session_programs import MEMORY_DIRECTORY, VARIABLE, command_of

KEEPS_RUNNING = ("sh", "-c", 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done')
"""Command of a session that people enter. As process 1 it handles SIGTERM itself, and ends."""


def without_token(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a session's pod without the token of a service account.

    People enter it with their own rights. The kubelet starts a pod without volumes 0.3 s sooner.
    """
    return {**pod, "automountServiceAccountToken": False}


def session_pod(kind: str, name: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of the pods of a Job with this spec, as a session of a kind in a browser.

    Raises:
        PoolError: a session can't have several pods.
    """
    if job["parallelism"] != 1 or job["completions"] != 1:
        raise wrong("session: has one pod; leave out --workers and --array, or write 1")
    pod = dict(job["template"]["spec"])
    (container,) = pod["containers"]
    command = command_of(
        kind,
        container["command"],
        own=MEMORY_DIRECTORY,
        name=name,
        directory=container.get("workingDir", "."),
        is_root=True,  # most images run as root, which Jupyter refuses without this option
    )
    container = {
        **container,
        "command": command,
        "env": [*container.get("env", ()), {"name": VARIABLE, "value": kind}],
    }
    return without_token({**pod, "containers": [container]})
