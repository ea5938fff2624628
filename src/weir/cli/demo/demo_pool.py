"""The pool of the tour in a temporary home. Nothing of it is left afterwards.

An interruption is recorded at once and handled between two observations, so that every process that was
started is known when the tour ends them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType, TracebackType
from typing import Any, Self

import weir
from weir.cli.demo.jobs import GPUS
from weir.cli.help.extras import how_to_install
from weir.client.api import Pool
from weir.local.processes import orphan_cleanup
from weir.local.processes.own_processes import OwnProcesses
from weir.local.records import pod_files, pod_records
from weir.local.records.job_messages import read_messages
from weir.local.records.pod_records import SAVED, TimeBounds
from weir.local.records.state_dir import ended

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""More threads would add up in another order, and the last bits with it."""
_BEGIN_S_MAX, _GO_S_MAX = 60.0, 8.0
_LOOK_S = 0.02


class DemoFailed(Exception):
    """The tour can't continue; the text says why."""


class Interrupted(Exception):
    """A person interrupted the tour."""


class DemoPool:
    """The pool of the tour. On exit, all its processes are ended and its home is removed."""

    def __init__(self) -> None:
        self.home = Path()
        self._told = False
        self._before: dict[int, Any] = {}
        self._server: subprocess.Popen[bytes] | None = None
        self._pool: Pool | None = None

    @property
    def pool(self) -> Pool:
        """Return a client with the administrator's token."""
        assert self._pool is not None
        return self._pool

    def __enter__(self) -> Self:
        self._before = {signal_number: signal.signal(signal_number, self._note) for signal_number in SIGNALS}
        self.home = Path(mkdtemp(prefix="weir-demo-")).resolve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        finally:
            for signal_number, handler in self._before.items():
                signal.signal(signal_number, handler)

    def begin(self) -> None:
        """Start the pool.

        Raises:
            DemoFailed: the pool doesn't start.
        """
        command = [sys.executable, "-m", "weir", "up", "--port", "0", "--virtual-gpus", str(GPUS)]
        with (self.home / "server.log").open("wb") as log:
            self._server = subprocess.Popen(  # noqa: S603 - it is ourselves
                [*command, "--log-level", "warning"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment() | {"WEIR_HOME": str(self.home)},
                start_new_session=True,  # Ctrl-C of the terminal is handled here
            )
        until_s = time.monotonic() + _BEGIN_S_MAX
        while not (self.home / "server.json").exists():
            self.check()
            if self._server.poll() is not None or time.monotonic() > until_s:
                raise DemoFailed(f"The pool didn't start: {self._last_words()}")
            time.sleep(_LOOK_S)
        url = json.loads((self.home / "server.json").read_text("utf-8"))["url"]
        self._pool = Pool(url, (self.home / "token").read_text("utf-8").strip(), timeout_s=15.0)

    def check(self) -> None:
        """Stop the tour if a person interrupted it.

        Raises:
            Interrupted: a person interrupted the tour.
        """
        if self._told:
            raise Interrupted

    def of_job(self) -> dict[str, str]:
        """Return the variables with which a job finds this installation and computes reproducibly."""
        variables = dict(ONE_THREAD)
        if path := os.environ.get("PYTHONPATH"):
            variables["PYTHONPATH"] = os.pathsep.join(
                str(Path(directory).absolute()) for directory in path.split(os.pathsep)
            )
        return variables

    def saved_s(self, uid: int) -> list[float]:
        """Return the times of a workload's checkpoints."""
        times = []
        for own in self.home.glob(f"{pod_files.OWN}/{uid}/*"):
            notes = read_messages(str(own), 0, TimeBounds(0.0, time.time())).notes
            times += [note.at_s for note in notes if note.kind == SAVED]
        return sorted(times)

    def began_s(self, uid: int) -> list[float]:
        """Return the start times of a workload's processes, as their supervisors recorded them."""
        directories = self.home.glob(f"pods/{uid}/*")
        ends = [ended(str(directory)) for directory in directories]
        return sorted(
            outcome.started_s for outcome in ends if outcome is not None and outcome.started_s is not None
        )

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._told = True

    def _last_words(self) -> str:
        lines = (self.home / "server.log").read_text("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")

    def _end(self) -> None:
        """End the server first, because it would restart ended pods; then the pods; then remove the files."""
        if self._pool is not None:
            self._pool.close()
        if self._server is not None:
            end(self._server)
        for directory in sorted(self.home.glob("pods/*/*")):
            _end_pod(str(directory))
        shutil.rmtree(self.home, ignore_errors=True)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Terminate a process, and kill it if it doesn't end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GO_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_pod(directory: str) -> None:
    """End the processes of a pod: its supervisor, then the rest."""
    with suppress(OSError):
        start = pod_records.parse_start(pod_files.read(directory, pod_files.START))
        groups = start.cgroups if isinstance(start, pod_records.StartRecord) else ()
        orphan_cleanup.kill_with_supervisor(directory, groups, time.time(), OwnProcesses())


def _environment() -> dict[str, str]:
    """Return the current environment without the variables that name the user's own pool."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}


def example(name: str) -> Path:
    """Return the path of an example: inside an installed package, next to it in a checkout.

    Raises:
        DemoFailed: the example is in neither place.
    """
    package = Path(weir.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / name).exists():
            return folder / name
    raise DemoFailed(f"The example {name} isn't installed.")


def missing() -> str | None:
    """Return a sentence that names the package to install first; None if nothing is missing."""
    if find_spec("sklearn") is None or find_spec("uvicorn") is None:
        return f"{how_to_install('demo', 'demo')}."
    return None
