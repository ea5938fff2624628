"""Reference runs: the same training without a pool and without interruption."""

import os
import subprocess
import sys
from pathlib import Path

from weir.cli.demo.demo_pool import DemoFailed, DemoPool, end, example
from weir.cli.demo.jobs import PARTS
from weir.local.machine.environment import INHERITED

DONE = "done after step"


class BaselineRun:
    """Runs the jobs of the tour by themselves, for comparison with the pool."""

    def __init__(self, stage: DemoPool) -> None:
        self._stage = stage
        self._waiting: list[str] = []
        self._asked: set[str] = set()
        self._now: tuple[str, Path, subprocess.Popen[bytes]] | None = None
        self.ends: dict[str, str] = {}  # last line of output by job

    @property
    def is_idle(self) -> bool:
        """Return True if all requested runs are done."""
        return self._now is None and not self._waiting

    def ask(self, name: str) -> None:
        """Queue a run of a job outside the pool, once for each job."""
        if name not in self._asked:
            self._asked.add(name)
            self._waiting.append(name)

    def look(self) -> None:
        """Check the current run, and start the next one if it is done.

        Raises:
            DemoFailed: a run failed.
        """
        if self._now is not None:
            name, directory, process = self._now
            code = process.poll()
            if code is None:
                return
            self._now = None
            output = (directory / "output").read_text("utf-8", "replace")
            if code != 0:
                raise DemoFailed(f"{name} failed when it ran alone: {output.strip()[-200:]}")
            self.ends[name] = done(output) or ""
        if self._waiting:
            self._begin(self._waiting.pop(0))

    def close(self) -> None:
        """End the current run."""
        if self._now is not None:
            end(self._now[2])

    def _begin(self, name: str) -> None:
        part, directory = PARTS[name], self._stage.home / "alone" / name
        directory.mkdir(parents=True)
        with (directory / "output").open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - a script of ours
                [sys.executable, str(example(part.script)), *part.words],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=_as_a_job() | self._stage.of_job(),
                start_new_session=True,
            )
        self._now = (name, directory, process)


def _as_a_job() -> dict[str, str]:
    """Return the environment of a job: another one could make numpy add up in another order."""
    return {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("LC_")}


def done(output: str) -> str | None:
    """Return the line with a job's final loss in all digits; None without such a line."""
    return next((line for line in output.splitlines() if line.startswith(DONE)), None)
