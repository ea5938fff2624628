"""The pool's home as directories: where each start of a pod lies, and what those that were left say."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.backends.local import pods
from weir.cluster.events import Place, PodKey
from weir.control.port import Exit

_MODE = 0o700


class InUse(RuntimeError):
    """Another pool runs in this home."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a start of a pod ended. `lost`: its supervisor was killed, or never came to be."""

    how: Exit
    at_s: float
    code: int | None = None
    signal: int | None = None
    started_s: float | None = None
    cpu_s: float = 0.0
    max_rss: int = 0
    out_of_memory: bool = False
    error: str | None = None

    @property
    def sentence(self) -> str:
        """What a person reads."""
        if self.error:
            return self.error
        if self.out_of_memory:
            return "It was ended because it used more memory than it asked for."
        if self.how is Exit.LOST:
            return "Its supervisor was killed."
        if self.how is Exit.STOPPED:
            return "It was stopped."
        if self.signal is not None:
            return f"It was ended by signal {self.signal}."
        return "It is done." if self.code == 0 else f"It ended with exit code {self.code}."


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a pod as its directory has it."""

    uid: int
    start: int
    group: int
    index: int
    directory: str
    said: dict[str, Any] | None  # what was to be started; None if that was never written whole
    stopping: bool
    ended: Ended | None

    @property
    def log(self) -> Path:
        """Its output."""
        return Path(self.directory, pods.LOG)

    @property
    def place(self) -> Place | None:
        """Where it was started."""
        if self.said is None:
            return None
        return Place(PodKey(*self.said["pod"]), self.said["node"], tuple(self.said["devices"]))


class Home:
    """`$WEIR_HOME`, made where it is missing, for its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        for directory in (self.path, self.path / "pods", self.path / "checkpoints"):
            directory.mkdir(_MODE, parents=True, exist_ok=True)
        self._lock = -1

    def occupy(self) -> None:
        """Be the only pool here until `leave`.

        Raises:
            InUse: another one is.
        """
        lock = os.open(self.path / "pool.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise InUse(f"another pool runs in {self.path}") from None
        self._lock = lock

    def leave(self) -> None:
        """Let another pool run here."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def directory(self, uid: int, start: int, group: int, index: int) -> str:
        """Of one start of a pod."""
        return f"{self.path}/pods/{uid}/{start}-{group}-{index}"

    def checkpoints(self, uid: int) -> str:
        """Where a workload saves its state."""
        return f"{self.path}/checkpoints/{uid}"

    def named(self, name: str) -> str:
        """The directory of a start by its name, UID/START-GROUP-INDEX."""
        return f"{self.path}/pods/{name}"

    def name_of(self, directory: str) -> str:
        """UID/START-GROUP-INDEX."""
        return directory.removeprefix(f"{self.path}/pods/")

    def numbers(self, uid: int) -> list[tuple[int, int, int]]:
        """Starts of a workload's pods as (start, group, index), oldest first."""
        try:
            names = os.listdir(f"{self.path}/pods/{uid}")
        except FileNotFoundError:
            return []
        split = [tuple(map(int, name.split("-"))) for name in names if name.replace("-", "").isdigit()]
        return sorted((parts[0], parts[1], parts[2]) for parts in split if len(parts) == 3)

    def starts(self, uid: int, after: int = 0) -> Iterator[Start]:
        """The starts of a workload's pods with numbers above `after`, oldest first."""
        for start, group, index in self.numbers(uid):
            if start > after:
                yield self.start(uid, start, group, index)

    def start(self, uid: int, start: int, group: int, index: int) -> Start:
        """One start of a pod."""
        directory = self.directory(uid, start, group, index)
        return Start(
            uid,
            start,
            group,
            index,
            directory,
            pods.read(directory, pods.START),
            pods.has(directory, pods.STOP),
            ended(directory),
        )

    def forget(self, uid: int) -> None:
        """Remove what was written of a workload that is over. What it saved itself is its owner's."""
        shutil.rmtree(f"{self.path}/pods/{uid}", ignore_errors=True)


def ended(directory: str) -> Ended | None:
    """How the start in this directory ended; None if it isn't over."""
    said = pods.read(directory, pods.EXIT)
    if said is None:
        return None
    code, signal = said.get("code"), said.get("signal")
    if said.get("lost"):
        how = Exit.LOST
    elif said.get("stopped"):
        how = Exit.STOPPED
    else:
        how = Exit.DONE if code == 0 else Exit.FAILED
    return Ended(
        how,
        _number(said.get("at_s")),
        code if isinstance(code, int) else None,
        signal if isinstance(signal, int) else None,
        _number(said.get("started_s")) or None,
        _number(said.get("cpu_s")),
        int(_number(said.get("max_rss"))),
        bool(said.get("out_of_memory")),
        str(said["error"]) if said.get("error") else None,
    )


def make_directory(directory: str) -> bool:
    """Make the directory of a start, which orders it; False if it was ordered before."""
    try:
        os.mkdir(directory, _MODE)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(directory.rpartition("/")[0], _MODE)
        return make_directory(directory)
    except FileExistsError:
        return False
    return True


def _number(said: object) -> float:
    return float(said) if isinstance(said, int | float) else 0.0
