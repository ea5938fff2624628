"""The pool's home as directories: the place of each start of a pod, and the outcome of old starts."""

import fcntl
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from weir.control.port import PodExit, PodExited
from weir.local.files.job_files import UnreadableFile
from weir.local.files.tree_removal import remove_path
from weir.local.records import pod_files, pod_records
from weir.local.records.pod_records import ExitRecord, StartRecord
from weir.model.resources import MEMORY, written
from weir.state.events import PodKey

_MODE = 0o700
_NUMBERS = re.compile(r"([0-9]{1,12})-([0-9]{1,9})-([0-9]{1,9})", re.ASCII)
NOT_FOUND, NOT_RUNNABLE, SIGNALLED = 127, 126, 128
"""Exit codes of a shell: program not found, program not executable, and the base of signals."""

_MEANINGS = {
    NOT_FOUND: ": a program it calls was not found",
    NOT_RUNNABLE: ": a program it calls can't be run",
}


class StateDirInUse(RuntimeError):
    """Another pool runs in this home."""


class StartOutcome(ExitRecord):
    """Outcome of a start, for control and for people."""

    __slots__ = ()

    @property
    def how(self) -> PodExit:
        """Return the kind of the exit."""
        if self.lost:
            return PodExit.LOST
        if self.stopped:
            return PodExit.STOPPED
        return PodExit.DONE if self.code == 0 else PodExit.FAILED

    @property
    def exit_code(self) -> int | None:
        """Return the exit code as a shell reports it: 128 plus the number for a signal.

        The answer is None if it is unknown.
        """
        return self.code if self.signal is None else SIGNALLED + self.signal

    @property
    def final(self) -> bool:
        """True if another start would end the same way."""
        if self.how is not PodExit.FAILED:
            return False
        return self.code in (NOT_RUNNABLE, NOT_FOUND) or (self.out_of_memory and self.memory_limit > 0)

    def exited(self, pod: PodKey, start: int, began_s: float, now_s: float) -> PodExited:
        """Return the exit for control, its time clamped between the beginning of the start and now."""
        at_s = max(began_s, min(self.at_s or now_s, now_s))
        own_loss = self.how is PodExit.LOST
        return PodExited(pod, start, self.how, at_s, self.sentence, self.exit_code, self.final, own_loss)

    @property
    def sentence(self) -> str:
        """Return the outcome as a sentence for people."""
        if self.error:
            return self.error
        if self.out_of_memory and self.how is not PodExit.DONE:
            return self._out_of_memory()
        if self.how in (PodExit.LOST, PodExit.STOPPED):
            return "It was stopped." if self.how is PodExit.STOPPED else "Its supervisor was killed."
        if self.signal is not None:
            return f"It was ended by signal {self.signal}."
        if self.code == 0:
            return "It is done."
        meaning = _MEANINGS.get(self.code or 0, "")
        return f"It ended with exit code {self.code}{meaning}."

    def _out_of_memory(self) -> str:
        used = self.memory_peak or self.max_rss  # kernels before 5.19 don't record the peak of a group
        peak = written(MEMORY, used) if used else "an unknown amount"
        if not self.memory_limit:
            return f"The kernel killed the pod: out of memory, peak {peak}."
        limit = written(MEMORY, self.memory_limit)
        raised = written(MEMORY, _more_memory(self.memory_limit))
        return (
            f"It was ended because it used more memory than its limit: {limit} is allowed by --memory, "
            f"its peak was {peak}. Submit it again with more, such as --memory {raised}, or without --memory."
        )


class StateDir:
    """`$WEIR_HOME`: for its owner only, but for the directories of users in a shared pool.

    Attributes:
        shared: pods run as several users, so the node process makes their directories.
        remove: deletes directories of users, by the workload's number; True for its checkpoints.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path.absolute()
        self.shared = shared
        self.remove: Callable[[int, bool], object] = self._remove_own
        self._lock = -1

    def occupy(self) -> None:
        """Lock the home for this pool until `leave`, and create missing directories.

        Raises:
            StateDirInUse: another pool uses the home.
            OSError: it can't be made.
        """
        self.path.mkdir(_MODE, parents=True, exist_ok=True)
        for name in (pod_files.RECORDS, pod_files.OWN, "checkpoints"):
            (self.path / name).mkdir(_MODE, exist_ok=True)
        lock = os.open(self.path / "pool.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise StateDirInUse(f"another pool runs in {self.path}") from None
        self._lock = lock

    def leave(self) -> None:
        """Let another pool run here."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def directory(self, uid: int, start: int, group: int, index: int) -> str:
        """Return the directory of a start."""
        return f"{self.path}/pods/{uid}/{start}-{group}-{index}"

    def checkpoints(self, uid: int) -> str:
        """Return the checkpoint directory of a workload."""
        return f"{self.path}/checkpoints/{uid}"

    def own(self, uid: int, start: int, group: int, index: int) -> str:
        """Return the job's own directory of a start."""
        return f"{self.path}/{pod_files.OWN}/{uid}/{start}-{group}-{index}"

    def start_name(self, directory: str) -> str:
        """Return the name of a start, as UID/START-GROUP-INDEX."""
        return directory.removeprefix(f"{self.path}/pods/")

    def numbers(self, uid: int) -> list[tuple[int, int, int]]:
        """Return a workload's starts as (start, group, index), oldest first; none if they can't be read."""
        try:
            names = os.listdir(f"{self.path}/pods/{uid}")
        except OSError:
            return []
        split = (_NUMBERS.fullmatch(name) for name in names)
        return sorted((int(match[1]), int(match[2]), int(match[3])) for match in split if match is not None)

    def can_create_starts(self) -> bool:
        """Return True if directories of starts can be made here at all."""
        return all(
            (self.path / name).is_dir() and os.access(self.path / name, os.W_OK | os.X_OK)
            for name in (pod_files.RECORDS, *(() if self.shared else (pod_files.OWN, "checkpoints")))
        )

    def delete_start_specs(self, uid: int) -> None:
        """Delete the specs, with command and environment, of a workload that is over."""
        for start, group, index in self.numbers(uid):
            with suppress(FileNotFoundError):
                os.unlink(f"{self.directory(uid, start, group, index)}/{pod_files.START}")

    def forget(self, uid: int) -> None:
        """Delete the records and output of a workload that is over; its checkpoints stay."""
        remove_path(f"{self.path}/{pod_files.RECORDS}/{uid}")
        with suppress(OSError):
            self.remove(uid, False)

    def delete_checkpoints(self, uid: int) -> None:
        """Delete the checkpoints of a workload that is over."""
        with suppress(OSError):
            self.remove(uid, True)

    def _remove_own(self, uid: int, checkpoints: bool) -> None:
        path = self.checkpoints(uid) if checkpoints else f"{self.path}/{pod_files.OWN}/{uid}"
        remove_path(path)


def read_spec(directory: str) -> StartRecord | UnreadableFile | None:
    """Return the spec of the start in this directory; None if it was never written completely.

    Raises:
        OSError: the machine is short of something.
    """
    spec = pod_records.parse_start(pod_files.read(directory, pod_files.START))
    if spec is None and pod_files.has(directory, pod_files.LOCK):
        return UnreadableFile(pod_files.START, "is gone")  # its supervisor has read it
    return spec


def ended(directory: str) -> StartOutcome | None:
    """Return the outcome in the records of this directory; None without one.

    Only the holder of the lock may rely on it: see `orphan_cleanup.conclude_start`.

    Raises:
        OSError: the machine is short of something.
    """
    record = pod_records.parse_exit(pod_files.read(directory, pod_files.EXIT))
    return StartOutcome(*record) if isinstance(record, ExitRecord) else None


def _more_memory(limit: int) -> int:
    """Return one and a half times a limit, in a round number of its unit."""
    unit = 1 << 30 if limit >= 2 << 30 else 1 << 20
    return -(-limit * 3 // 2 // unit) * unit


def make_directory(directory: str) -> bool:
    """Make the directory of a start, which counts as its request; return False if it exists.

    Raises:
        OSError: it can't be made.
    """
    try:
        try:
            os.mkdir(directory, _MODE)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(directory.rpartition("/")[0], _MODE)
            os.mkdir(directory, _MODE)
    except FileExistsError:
        return False
    return True
