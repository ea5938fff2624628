# ruff: noqa: N802, N815 - the names are the driver's
"""A driver with limits for memory of GPUs, which a test controls."""

from dataclasses import dataclass, field

UNLIMITED = (1 << 64) - 1
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND = 3, 4, 6, 13
GPU_IS_LOST, INSUFFICIENT_RESOURCES, DRIVER_NOT_LOADED = 15, 23, 9


class DriverError(Exception):
    """An error of the driver, with its number."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


@dataclass
class MemoryLimits:
    """Fields of the structures that set and get limits."""

    nameSpace: bytes
    softLimit: int
    hardLimit: int
    currentUsed: int = 0


@dataclass
class MemoryDriver:
    """GPUs by id, and their limits by GPU and group.

    `fails`: error of each call that is refused. `groups`: those that exist. `mig`: GPUs in MIG mode. `reads`: limit
    that is read in place of the one that is set. `most`: limits that it can keep. `used`: bytes in use.
    """

    gpus: set[str] = field(default_factory=lambda: {"GPU-a", "GPU-b"})
    groups: set[str] = field(default_factory=lambda: {"/cg/pod", "/cg/other"})
    fails: dict[str, int] = field(default_factory=dict)
    mig: set[str] = field(default_factory=set)
    reads: int | None = None
    most: int = 100
    limits: dict[tuple[str, str], int] = field(default_factory=dict)
    used: int = 0
    sets: int = 0

    NVMLError = DriverError
    c_nvmlSetMemoryLimits_v1_t = MemoryLimits
    c_nvmlGetMemoryLimits_v1_t = MemoryLimits

    def nvmlDeviceGetHandleByUUID(self, gpu: str) -> str:
        self._check("handle")
        if gpu not in self.gpus:
            raise DriverError(NOT_FOUND)
        return gpu

    def nvmlDeviceSetMemoryLimits_v1(self, board: str, limits: MemoryLimits) -> None:
        self._check("set")
        group = limits.nameSpace.decode()
        if board in self.mig:
            raise DriverError(NOT_SUPPORTED)
        if group not in self.groups:
            raise DriverError(NOT_FOUND)
        if len(self.limits) >= self.most and (board, group) not in self.limits:
            raise DriverError(INSUFFICIENT_RESOURCES)
        self.sets += 1
        self.limits[board, group] = limits.hardLimit

    def nvmlDeviceGetMemoryLimits_v1(self, board: str, limits: MemoryLimits) -> None:
        self._check("get")
        group = limits.nameSpace.decode()
        if group not in self.groups:
            raise DriverError(NOT_FOUND)
        limits.currentUsed = self.used
        limits.hardLimit = self.limits.get((board, group), UNLIMITED) if self.reads is None else self.reads

    def _check(self, call: str) -> None:
        if call in self.fails:
            raise DriverError(self.fails[call])
