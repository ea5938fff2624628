"""Facts about containers: the runtime, and the rights of users to make namespaces."""

import ctypes
import os
import shutil

from weir.cli.doctor.facts import ContainerFacts
from weir.local.containers import user_namespace
from weir.local.containers.launch import PATH
from weir.local.containers.podman import INIT_PROGRAMS
from weir.local.machine.cdi import DeviceSpecifications

_OVERFLOW_UID = 65534
_SET_DUMPABLE = 4


def container_facts() -> ContainerFacts:
    """Return the facts about containers."""
    missing = [program for program in ("podman", "crun") if shutil.which(program, path=PATH) is None]
    return ContainerFacts(
        podman="podman" not in missing,
        missing=tuple(missing),
        passes_signals_on=any(map(os.path.exists, INIT_PROGRAMS)),
        namespace_problem="" if "podman" in missing else namespace_problem(),
        specified_gpus=len(DeviceSpecifications().names()),
    )


def namespace_problem() -> str:
    """Try to enter a user namespace in an unprivileged process; return the problem, or ""."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _give_up_rights()
            user_namespace.enter_own()
            user_namespace.mount_run_directory()
        except OSError as failure:
            os.write(writes, (failure.strerror or "unknown").encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        problem = answer.read(200).decode(errors="replace")
    os.waitpid(child, 0)
    return problem


def _give_up_rights() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_OVERFLOW_UID, _OVERFLOW_UID, _OVERFLOW_UID)
        os.setresuid(_OVERFLOW_UID, _OVERFLOW_UID, _OVERFLOW_UID)
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # its files in /proc belong to it again
