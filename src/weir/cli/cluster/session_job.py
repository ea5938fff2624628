"""The pod of a session in a browser: its program listens on a socket in the container."""

from collections.abc import Mapping
from typing import Any

from weir.cli.cluster.errors import wrong
from weir.local.session_programs import MEMORY_DIRECTORY, VARIABLE, command_of


def session_pod(kind: str, name: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of the pods of a Job with this spec, as a session of a kind.

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
        is_root=True,  # most images run as root, which Jupyter wants to be told
    )
    container = {
        **container,
        "command": command,
        "env": [*container.get("env", ()), {"name": VARIABLE, "value": kind}],
    }
    return {**pod, "containers": [container]}
