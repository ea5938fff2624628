"""Facts of a machine that `weir doctor` checks: plain values, without judgement."""

from dataclasses import dataclass
from typing import Literal

Groups = Literal["v2", "v1", "hybrid", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """GPUs of the bus, the driver's answer, and the device files.

    `problem` is why the driver doesn't answer. `files` has the mode of each device file that a job needs;
    None for one that is missing.
    """

    on_bus: int = 0
    gpus: int = 0
    driver: str = ""
    problem: str = ""
    not_persistent: int = 0
    files: tuple[tuple[str, int | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """Control groups, and the kernel's version. `writable`: None if it can't be known as this user."""

    kind: Groups = "none"
    controllers: frozenset[str] = frozenset()
    kernel: tuple[int, int] = (0, 0)
    writable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """systemd, the clock, and the limits of processes. `systemd`: None where another init runs.

    `clock_synchronised`: None if the kernel doesn't say. The limits are those of `limits_of`, for each of its
    processes; None is unlimited.
    """

    systemd: int | None = None
    clock_synchronised: bool | None = None
    limits_of: str = "this shell"
    files_max: int | None = None
    processes_max: int | None = None
    locked_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeFacts:
    """Home of the pool and its file system. `written_s`: the newest change of a file in it."""

    path: str = ""
    file_system: str = ""
    read_only: bool = False
    writable: bool | None = None
    free_bytes: int = 0
    free_files: int | None = None
    written_s: float | None = None
    now_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """The pool that serves this machine, or that is installed on it.

    `problem` is why the server doesn't answer, `version` the one that answers. `owner` has the socket, and
    `expected_owner` should have it. `unsafe` is why root shouldn't run the program. `certificate_left_s` is
    for how long the certificate of the listener for other machines holds; None without one.
    """

    installed: bool = False
    systemd: bool = True
    enabled: bool | None = None
    version: str = ""
    own_version: str = ""
    problem: str = ""
    trouble: str = ""
    owner: str = ""
    expected_owner: str = ""
    closed_socket: bool = False
    port: int = 0
    port_owner: str = ""
    unsafe: str = ""
    certificate_left_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """The runtime of containers. `namespace_problem`: why users can't make a user namespace, or empty.

    `specified_gpus`: number of names of GPUs in the specifications of the Container Device Interface.
    """

    podman: bool = False
    missing: tuple[str, ...] = ()
    passes_signals_on: bool = False
    namespace_problem: str = ""
    specified_gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserHome:
    """Home directory of a person. `problem`: why root can't read it; empty if it can."""

    user: str
    path: str
    file_system: str = ""
    options: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Facts of a machine, grouped by subject."""

    gpus: GpuFacts
    groups: GroupFacts
    host: HostFacts
    home: HomeFacts
    service: ServiceFacts
    people: tuple[UserHome, ...] = ()
    containers: ContainerFacts = ContainerFacts()
