"""Replays of the pool's history, each in a process of its own with the lowest priority.

One runs at a time, bounded in time and memory. Results stay in files of the home, so links to them work.
"""

import asyncio
import json
import os
import re
import resource
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from structlog import get_logger

from weir.api.what_if import WhatIfAsked, WhatIfRow
from weir.local.server.access.authorization import Person
from weir.local.server.home import private_files
from weir.local.server.http.problem_details import RequestRefused

FOLDER = "what-if"
KEPT_MAX: Final = 50
RUN_S_MAX: Final = 1800
MEMORY_MAX: Final = 4 << 30
LINE_BYTES_MAX: Final = 4 << 20
ERROR_CHARACTERS_MAX: Final = 500
NICE = 19
_ID = re.compile(r"[a-z0-9]{12}", re.ASCII)
_LOG = get_logger(__name__)


class WhatIfRuns:
    """Runs the replays of a pool, one at a time. Belongs to the event loop."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._running: WhatIfRow | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def progress(self) -> dict[str, str | float] | None:
        """Return the number and the progress of the running replay; None if none runs."""
        row = self._running
        return None if row is None else {"id": row.id, "progress": row.progress}

    def start(
        self, asked: WhatIfAsked, cluster: str, trace: str, person: Person, *, at_s: float, since_s: float
    ) -> WhatIfRow:
        """Start a replay of a trace on a cluster.

        Raises:
            RequestRefused: another one runs, or there is nothing to replay.
        """
        if self._running is not None:
            raise RequestRefused(409, "Another replay runs: wait for it, or cancel it.")
        jobs = trace.count("\n") - 1
        if jobs < 1:
            raise RequestRefused(
                409, "No workload that was submitted in this time is over: nothing to replay."
            )
        row = WhatIfRow(
            id=secrets.token_hex(6),
            user=person.user,
            at_s=at_s,
            since_s=since_s,
            alternatives=asked.alternatives,
            seeds=asked.seeds,
            state="running",
            jobs=jobs,
        )
        self._running = row
        self._task = asyncio.get_running_loop().create_task(self._run(row, cluster, trace))
        return row

    def all(self) -> list[WhatIfRow]:
        """Return the replays that are kept, newest first."""
        rows = [] if self._running is None else [self._running]
        with suppress(OSError):
            files = (path for path in self._folder.glob("*.json") if _ID.fullmatch(path.stem))
            rows += [row for path in files if (row := self._read(path.stem)) is not None]
        return sorted(rows, key=lambda row: -row.at_s)

    def get(self, id_: str) -> WhatIfRow:
        """Return a replay.

        Raises:
            RequestRefused: no replay has this name.
        """
        if self._running is not None and self._running.id == id_:
            return self._running
        row = self._read(id_) if _ID.fullmatch(id_) else None
        if row is None:
            raise RequestRefused(404, "There is no such replay.")
        return row

    async def cancel(self, id_: str) -> WhatIfRow:
        """End a running replay, or delete a finished one."""
        row = self.get(id_)
        if row.state == "running":
            self._end(row, state="cancelled")
            await self.close()
            return row.model_copy(update={"state": "cancelled"})
        with suppress(OSError):
            (self._folder / f"{id_}.json").unlink(missing_ok=True)
        return row

    async def close(self) -> None:
        """Stop the replay process."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # The worker process

    async def _run(self, row: WhatIfRow, cluster: str, trace: str) -> None:
        place = self._folder / f"{row.id}.run"
        try:
            await asyncio.to_thread(_write_files, place, cluster, trace)
            async with asyncio.timeout(RUN_S_MAX):
                await self._replay(row, place)
        except TimeoutError:
            self._end(row, state="failed", sentence=f"It took longer than {RUN_S_MAX // 60} minutes.")
        except (OSError, ValueError) as error:
            self._end(
                row, state="failed", sentence=f"It could not be replayed: {error}"[:ERROR_CHARACTERS_MAX]
            )
        finally:
            process = self._process
            if process is not None and process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            self._process = None
            if self._running is not None and self._running.id == row.id:
                self._running = None
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)

    async def _replay(self, row: WhatIfRow, place: Path) -> None:
        words = ["--cluster", str(place / "cluster.yaml"), "--trace", str(place / "trace.csv")]
        words += ["--seeds", str(row.seeds), "--output", "progress"]
        words += [f"--what-if={text}" for text in row.alternatives]
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "weir", "simulate", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            cwd=place,
        )
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.create_task(process.stderr.read(LINE_BYTES_MAX))
        result = None
        async for line in process.stdout:
            message = json.loads(line)
            result = message.get("result", result)
            if self._running is not None and self._running.id == row.id:
                self._running = row.model_copy(update={"progress": float(message.get("progress", 1.0))})
        code, text = await process.wait(), (await errors).decode(errors="replace")
        if code == 0 and result is not None:
            self._end(row, state="done", progress=1.0, result=result)
        else:
            why = text.strip().rsplit("\n", 1)[-1] or f"it ended with {code}"
            self._end(row, state="failed", sentence=why.removeprefix("weir: ")[:ERROR_CHARACTERS_MAX])

    def _end(self, row: WhatIfRow, **changes: object) -> None:
        """Keep the outcome of a replay."""
        if self._running is None or self._running.id != row.id:
            return
        ended = self._running.model_copy(update=changes)
        self._running = None
        if ended.state == "cancelled":
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            private_files.write(self._folder / f"{row.id}.json", ended.model_dump_json().encode())
            for old in self.all()[KEPT_MAX:]:
                (self._folder / f"{old.id}.json").unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("replay_not_kept", why=error.strerror or str(error))

    def _read(self, id_: str) -> WhatIfRow | None:
        try:
            return WhatIfRow.model_validate_json((self._folder / f"{id_}.json").read_bytes())
        except (OSError, ValidationError):
            return None


def _write_files(place: Path, cluster: str, trace: str) -> None:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / "cluster.yaml").write_text(cluster, "utf-8")
    (place / "trace.csv").write_text(trace, "utf-8")
