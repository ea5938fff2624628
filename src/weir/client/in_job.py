"""Calls for a job inside a pool or a cluster. Elsewhere they do nothing.

This module uses only the standard library: a job must never wait or fail because of its pool. On one machine
messages go into a file, on a cluster a thread sends them to the API server.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from weir.client.stop_signal import STOP_SIGNAL, is_in_cluster
from weir.client.sweep_rungs import SweepRungs, rungs_of_this_process

if TYPE_CHECKING:
    from weir.client.world import World

_LINE_MAX = 1 << 16
_BUSY_S = 3600.0
_WHY_MAX = 64
NUMBER_MAX, STEP_MAX, BUSY_S_MAX = 1e300, 10**15, 1e9
"""Largest values, steps and times: a pool passes over larger ones, and a cluster refuses such a message."""
_NO_WORLD = (
    "weir.world() knows no other pods here: set WORLD_SIZE and RANK in the pods' environment, as the "
    "controllers of training jobs do."
)
_share_kept = False
_told: set[str] = set()  # sentences that this process has printed


def checkpointed(step: int | None = None) -> None:
    """Report that the job's state is saved: a stop from now on loses no earlier work.

    A trial of a sweep that has reached a rung waits here for its notice to stop.
    """
    step = _step_number(step)
    _note("checkpointed", step, {})
    rungs = _rungs()
    rungs.saved(step)
    rungs.await_notice(_has_notice)


def stopping() -> bool:
    """Return True after notice to stop: save the state and exit before the grace period ends.

    A trial of a sweep has notice as soon as it reports a rung. On a cluster the notice is SIGTERM, from the
    first call in the main thread on. A process that has had this notice in a cluster doesn't exit with code
    0, so that its Job restarts it.
    """
    _keep_to_share()
    if _has_notice() or (is_in_cluster() and STOP_SIGNAL.is_given()):
        return True
    return _rungs().is_reached


def report(step: int | None = None, **values: float) -> None:
    """Report the job's progress and metrics for its charts, and for the sweep that it is a trial of."""
    step = _step_number(step)
    _note("report", step, values)
    rungs = _rungs()
    if rungs.report(step, values):
        _note("rung", step, {rungs.metric: values[rungs.metric]})
        rungs.await_notice(_has_notice)


def _has_notice() -> bool:
    directory = os.environ.get("WEIR_POD_DIRECTORY")
    return bool(directory) and os.access(f"{directory}/stop.json", os.F_OK)


@cache
def _rungs() -> SweepRungs:
    return rungs_of_this_process()


def busy(why: str = "", *, until: float | None = None) -> None:
    """Report that the job works although its GPUs are quiet, so that the idle rules ignore it.

    `until` is a time as of `time.time()`, by default an hour from now. The policy bounds it; another call
    replaces it.
    """
    for_s = _BUSY_S if until is None else until - time.time()
    _note("busy", None, {"for_s": min(max(0.0, for_s), BUSY_S_MAX)}, str(why)[:_WHY_MAX])


def world() -> "World":
    """Return the world of this process: the number of participating pods of its workload, and its rank.

    Call it again to see pods of an elastic workload come and go; the answer stays equal while none does. The
    first call waits until the least number of pods takes part, for a minute at most.
    """
    from weir.client.world import current_world, is_world_stated

    if is_in_cluster() and not is_world_stated():
        _say_once(_NO_WORLD)
    return current_world()


def _say_once(sentence: str) -> None:
    """Print a sentence in the output of the job, once in a process."""
    if sentence not in _told:
        _told.add(sentence)
        with suppress(Exception):
            print(f"weir: {sentence}", file=sys.stderr, flush=True)


def _note(kind: str, step: int | None, values: dict[str, float], why: str = "") -> None:
    _keep_to_share()
    directory = os.environ.get("WEIR_POD_DIRECTORY")
    if not directory:
        if is_in_cluster():
            _send(kind, step, _numbers(values), why)
        return
    note = {
        "kind": kind,
        "at_s": time.time(),
        "boot_s": time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None,
        "step": step,
        "values": _numbers(values),
        **({"why": why} if why else {}),
    }
    line = json.dumps(note, separators=(",", ":")).encode() + b"\n"
    if len(line) > _LINE_MAX:
        return
    with suppress(OSError):
        fd = os.open(f"{directory}/notes.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
        _poke()


def _send(kind: str, step: int | None, values: dict[str, float], why: str) -> None:
    """Hand a message to the thread that sends it to Weir on a cluster."""
    from weir.client.cluster_messages import messages_of_this_process

    with suppress(Exception):
        messages = messages_of_this_process()
        if kind == "report":
            messages.report(step, values)
        elif kind == "checkpointed":
            messages.checkpointed()
        elif kind == "busy":
            messages.busy(values["for_s"], why)


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    """Return the numbers that every reader takes; arrays and tensors of one element count as numbers."""
    numbers = {}
    for name, value in values.items():
        with suppress(Exception):  # of a tensor, too
            number = float(value)
            if abs(number) <= NUMBER_MAX:
                numbers[name] = number
    return numbers


def _step_number(step: object) -> int | None:
    """Return a step as an integer; None if the value isn't an integer, or is too large for some reader."""
    with suppress(Exception):
        number = int(step)  # type: ignore[call-overload]  # a tensor of one element, too
        return number if abs(number) <= STEP_MAX else None
    return None


def _poke() -> None:
    """Notify the pool of a new note; without the notification it reads the note later."""
    path, name = os.environ.get("WEIR_NOTES"), os.environ.get("WEIR_POD_ID")
    if not path or not name:
        return
    home, _, socket_name = path.rpartition("/")
    with suppress(OSError):
        place = os.open(
            home, os.O_PATH | os.O_CLOEXEC
        )  # names of sockets are limited to about 100 bytes, directories aren't
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
                out.sendto(name.encode(), f"/proc/self/fd/{place}/{socket_name}")
        finally:
            os.close(place)


def _keep_to_share() -> None:
    """Limit torch, once it is imported, to the pod's fraction of its devices."""
    global _share_kept  # noqa: PLW0603 - once in a process
    torch = sys.modules.get("torch")
    fraction = os.environ.get("WEIR_GPU_FRACTION")
    if _share_kept or torch is None or not fraction:
        return
    limit: Callable[..., None] | None = getattr(
        getattr(torch, "cuda", None), "set_per_process_memory_fraction", None
    )
    if limit is None:
        return  # its import isn't finished
    _share_kept = True
    with suppress(Exception):
        if float(fraction) < 1.0 and torch.cuda.is_available():
            for device in range(torch.cuda.device_count()):
                limit(_fraction_of(torch.cuda, device, float(fraction)), device)


def _fraction_of(cuda: Any, device: int, fraction: float) -> float:
    """Return the share as a fraction of the memory that torch sees, which may be the share itself."""
    with suppress(Exception):
        seen = int(cuda.mem_get_info(device)[1])
        return min(1.0, int(os.environ["WEIR_GPU_MEMORY"]) / seen)
    return fraction
