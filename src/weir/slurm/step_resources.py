"""CPUs and GPUs of a job, shared by its steps: each is a file that a step holds locked.

A step gets all that it asks for at once, or waits, so two steps can't wait for each other.
"""

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from weir.slurm.running_steps import locked

_LOOK_S = 0.1


class StepResources:
    """Resources of a step, held until this process ends."""

    def __init__(self, place: Path, cpus: int, gpus: int) -> None:
        """Set the numbers of CPUs and GPUs of the job."""
        self._place = place / "steps"
        self._cpus, self._gpus = cpus, gpus

    def take(self, cpus: int, gpus: int, waiting: Callable[[], None]) -> Sequence[int]:
        """Lock CPUs and GPUs for this step; return the positions of the GPUs.

        `waiting` is called once if other steps hold them.
        """
        told = False
        while True:
            with locked(self._place / "allocation"):
                held_cpus = self._some("cpu", self._cpus, cpus)
                held_gpus = None if held_cpus is None else self._some("gpu", self._gpus, gpus)
                if held_cpus is not None and held_gpus is not None:
                    return [position for position, _ in held_gpus]
                for _, fd in (*(held_cpus or ()), *(held_gpus or ())):
                    os.close(fd)
            if not told:
                waiting()
                told = True
            time.sleep(_LOOK_S)

    def _some(self, kind: str, number: int, needed: int) -> list[tuple[int, int]] | None:
        """Lock free units of a kind; return their positions and descriptors, or None if too few are free."""
        held: list[tuple[int, int]] = []
        for position in range(number):
            if len(held) == needed:
                break
            fd = os.open(self._place / f"{kind}{position}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
            else:
                held.append((position, fd))
        if len(held) == needed:
            return held
        for _, fd in held:
            os.close(fd)
        return None
