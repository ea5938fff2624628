"""Series of the reports and the usage of workloads, for curves.

They are kept in memory while a workload lives, and in a file of the home; a crash loses the last minute.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from structlog import get_logger

from weir.control.metric_series import NAMES_MAX, MetricSeries, Point, add_points
from weir.local.server.home import private_files

LIVE_MAX = 20_000
"""Workloads whose series are in memory; the least recently changed are read from their files."""
REPORTED = "reported."
"""Beginning of the names of reported series; the others are measured."""
FOLDER = "series"
FLUSH_S = 60.0
_FILE_BYTES_MAX = 8 << 20
_LOG = get_logger(__name__)

_FILE = TypeAdapter(dict[str, list[Point]])


class SeriesStore:
    """Series of all workloads, by their number. Any thread may call it."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._lock = threading.Lock()
        self._series: dict[int, dict[str, MetricSeries]] = {}
        self._dirty: set[int] = set()
        self._flushed_s = time.monotonic()

    def add(self, uid: int, at_s: float, values: Mapping[str, float]) -> None:
        """Add values of one moment."""
        if not values:
            return
        with self._lock:
            series = self._series.get(uid)
        if series is None:
            series = self._read(uid)
        with self._lock:
            series = self._series.setdefault(uid, series)
            for name, value in values.items():
                add_points(series, name, ((at_s, value),))
            self._dirty.add(uid)

    def series_of(self, uid: int) -> dict[str, Sequence[Point]]:
        """Return the series of a workload, by name."""
        with self._lock:
            series = self._series.get(uid)
            if series is not None:
                return {name: tuple(metric.points) for name, metric in series.items()}
        return {name: tuple(metric.points) for name, metric in self._read(uid).items()}

    def flush(self, live: Iterable[int], *, now: bool = False) -> None:
        """Write changed series once a minute, and keep in memory only those of live workloads."""
        if not now and time.monotonic() - self._flushed_s < FLUSH_S:
            return
        self._flushed_s = time.monotonic()
        with self._lock:
            dirty, self._dirty = self._dirty, set()
            texts = {
                uid: _FILE.dump_json({name: metric.points for name, metric in self._series[uid].items()})
                for uid in dirty
                if uid in self._series
            }
        for uid, text in texts.items():
            self._write(uid, text)
        kept = set(live)
        with self._lock:
            for uid in [uid for uid in self._series if uid not in kept and uid not in self._dirty]:
                del self._series[uid]
            for uid in list(self._series)[: max(0, len(self._series) - LIVE_MAX)]:
                del self._series[uid]

    def forget(self, uid: int) -> None:
        """Delete the series of a workload."""
        with self._lock:
            self._series.pop(uid, None)
            self._dirty.discard(uid)
        with suppress(OSError):
            self._path(uid).unlink(missing_ok=True)

    def _path(self, uid: int) -> Path:
        return self._folder / f"{uid}.json"

    def _write(self, uid: int, text: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            private_files.write(self._path(uid), text)
        except OSError as error:
            _LOG.warning("series_not_kept", uid=uid, why=error.strerror or str(error))

    def _read(self, uid: int) -> dict[str, MetricSeries]:
        try:
            text = private_files.read(self._path(uid), _FILE_BYTES_MAX)
            stored = {} if text is None else _FILE.validate_json(text)
        except (OSError, ValidationError) as error:
            _LOG.warning("series_unreadable", uid=uid, why=type(error).__name__)
            return {}
        return {name: MetricSeries(points) for name, points in list(stored.items())[:NAMES_MAX]}
