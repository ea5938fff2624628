"""Launch of a pod in a container: the program that its leader becomes instead of the submitted command.

The leader becomes `entry`, which runs as the pod's user. The variable SPEC says what it needs. Variables for
the container are in its own environment under their names, so that no other user reads their values. Only
names that the runtime itself obeys are written apart.
"""

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.control.journal import ContainerLaunch

SPEC = "WEIR_CONTAINER"
"""Variable of the leader: the container to run, as JSON."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Directories of the runtime and its programs."""
_PROXIES = tuple(
    name for scheme in ("http", "https", "no") for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
)
_OF_THE_HOST = ("TZ", *_PROXIES)
"""Variables of the machine that are passed to containers, too."""
_RESERVED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|NOTIFY_SOCKET|LISTEN_.*|LD_.*|GLIBC_.*|MALLOC_.*|GO[A-Z]+|XDG_.*"
    r"|_?CONTAINERS?_.*|STORAGE_.*|REGISTRY_.*|BUILDAH_.*|PODMAN_.*|DOCKER_.*|DBUS_.*|WEIR_CONTAINER",
    re.ASCII,
)


def is_reserved(variable: str) -> bool:
    """Return True if the runtime on the machine would obey a variable that is meant for the container."""
    return _RESERVED.fullmatch(variable) is not None


def host_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the machine that are passed to containers, too."""
    return {name: inherited[name] for name in _OF_THE_HOST if name in inherited}


def command_of(container: "ContainerLaunch", command: Sequence[str]) -> list[str]:
    """Return the command of the leader."""
    return [sys.executable, "-I", "-m", "weir.local.containers.entry", container.runtime, *command]


def environment_of(
    container: "ContainerLaunch",
    inside: Mapping[str, str],
    secrets: Collection[str],
    *,
    directory: str,
    shared_directories: Sequence[str],
    devices: Sequence[str],
    problem: str,
) -> dict[str, str]:
    """Return the environment of the leader, for these variables of the container.

    `problem` is the reason why the container can't be started, or empty.
    """
    kept = {name: value for name, value in inside.items() if not is_reserved(name)}
    spec = {
        "image": container.image,
        "pull": container.pull,
        "directory": directory,
        "shared": list(shared_directories),
        "devices": list(devices),
        "pass": sorted({*kept, *secrets}),
        "set": {name: value for name, value in inside.items() if is_reserved(name)},
        "problem": problem,
    }
    return {"PATH": PATH, **kept, SPEC: json.dumps(spec, separators=(",", ":"))}
