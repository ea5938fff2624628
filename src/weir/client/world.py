"""World of a process inside a job: the pods that take part now, and the rank of the process.

The pods of an elastic workload see each other by locks on files in its checkpoint directory. The kernel
releases a lock when its process ends in any way, so nothing waits for the pool. The standard library only.
"""

import fcntl
import hashlib
import os
import re
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = ".world"
WAIT_S_MAX = 60.0
"""Time for which the first call waits for the least number of pods."""
LOOK_S = 0.05
_FLOCK = "hhqqi"
"""Layout of `struct flock` on Linux: kind, base, begin, length, process."""
_NAME = re.compile(r"[0-9]+-[0-9]+-[0-9]+")
"""START-GROUP-INDEX of a pod."""
_ORDINAL = re.compile(r"-([0-9]+)$")
"""End of the name of a StatefulSet's pod."""
_own: dict[str, int] = {}  # descriptor of this pod's locked file, by its path


@dataclass(frozen=True, slots=True)
class World:
    """The pods that take part in a job.

    Attributes:
        size: number of processes that take part.
        rank: of this process, from 0.
        local_rank: of this process among those of its pod: its device.
        master_addr: address at which the process of rank 0 may listen.
        master_port: port for that.
        generation: changes whenever a pod comes, goes or is started again; equal for all that see the same.
    """

    size: int = 1
    rank: int = 0
    local_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    generation: str = ""


def current_world(environment: Mapping[str, str] = os.environ) -> World:
    """Return the world now. Outside of an elastic workload it is that of the environment, and stays."""
    least = environment.get("WEIR_ELASTIC", "").partition(":")[0]
    if not least or "TORCHELASTIC_RUN_ID" in environment:
        return _static(environment)
    try:
        return _elastic(environment, int(least))
    except OSError:  # if nothing can be written there, the job keeps its first values
        return _static(environment)


def _elastic(environment: Mapping[str, str], least: int) -> World:
    directory = f"{environment['WEIR_CHECKPOINT_DIR']}/{DIRECTORY}"
    name = environment["WEIR_POD_ID"].rpartition("/")[2]
    is_first = _join(directory, name)
    members = _members(directory, name)
    until_s = time.monotonic() + WAIT_S_MAX
    while is_first and len(members) < least and time.monotonic() < until_s:
        time.sleep(LOOK_S)
        members = _members(directory, name)
    generation = hashlib.sha256("\n".join(members).encode()).hexdigest()[:16]
    port = int(environment.get("MASTER_PORT", "0"))
    address = environment.get("MASTER_ADDR", "127.0.0.1")
    return World(len(members), members.index(name), 0, address, port, generation)


def is_world_stated() -> bool:
    """Return True if a controller, or the manifest of the pod, states the number of processes."""
    return "WORLD_SIZE" in os.environ or "LWS_GROUP_SIZE" in os.environ


def _static(environment: Mapping[str, str]) -> World:
    """Return the world that the environment states.

    A LeaderWorkerSet has variables of its own. An Indexed Job states the rank alone, and so does the name of
    a StatefulSet's pod.
    """
    stated = environment.get
    rank = stated("RANK") or stated("LWS_WORKER_INDEX") or stated("JOB_COMPLETION_INDEX")
    size = int(stated("WORLD_SIZE") or stated("LWS_GROUP_SIZE") or "1")
    if rank is None and size > 1:
        ordinal = _ORDINAL.search(stated("HOSTNAME", ""))
        rank = None if ordinal is None else ordinal[1]
    return World(
        size,
        int(rank or "0") if size > 1 or "RANK" in environment else 0,
        int(stated("LOCAL_RANK", "0")),
        stated("MASTER_ADDR") or stated("LWS_LEADER_ADDRESS") or "127.0.0.1",
        int(stated("MASTER_PORT", "0")),
        stated("TORCHELASTIC_RESTART_COUNT", ""),
    )


def _join(directory: str, name: str) -> bool:
    """Lock the file of this pod; return True if this process took the lock just now.

    If another process of the pod holds the lock, the pod is counted already.
    """
    path = f"{directory}/{name}"
    if path in _own:
        return False
    Path(directory).mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    _own[path] = descriptor  # never closed: that would release the lock
    with suppress(BlockingIOError, PermissionError):
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _members(directory: str, name: str) -> list[str]:
    """Return the names of the pods that take part, in the order of their ranks."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    members = [member for member in names if member == name or _is_locked(f"{directory}/{member}")]
    return sorted(members, key=_position)


def _position(name: str) -> tuple[int, ...]:
    """Return the place of START-GROUP-INDEX: by group and index, then by start."""
    start, group, index = map(int, name.split("-"))
    return group, index, start


def _is_locked(path: str) -> bool:
    """Return True if a living process holds the lock of a file; a file that is gone has none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind: int = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[0]
        return kind != fcntl.F_UNLCK
    finally:
        os.close(descriptor)
