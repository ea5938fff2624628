"""Supervisors of running pods: adopted when they are forked or found, and concluded when they exit."""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from weir.control.clock import Clock
from weir.control.port import PodExited
from weir.local.pods.running_pods import RunningPod
from weir.local.pods.start_times import StartTimes
from weir.local.processes.fd_watcher import FdWatcher
from weir.local.processes.orphan_cleanup import conclude_start
from weir.local.processes.pod_processes import PodProcesses
from weir.local.records import pod_files
from weir.local.records.pod_records import parse_grace
from weir.local.records.state_dir import StateDir

_AGAIN_S, _AFTER_FAILURE_S = 0.02, 1.0
_MAX_LOCKED_CHECKS = 100
_ENFORCED_AFTER_S = 20.0
"""Time after the grace period that a supervisor has to stop a pod."""
_GRACE_MAX_S = 3600.0
"""Assumed notice of a request to stop that can't be read."""


class SupervisorWatch:
    """Watch of the supervisors of starts, in the watcher's thread.

    `running` are the starts that aren't over, guarded by `lock`. `concluded` is called with each end.
    """

    def __init__(
        self,
        home: StateDir,
        watch: FdWatcher,
        lock: threading.Lock,
        running: Mapping[str, RunningPod],
        start_times: StartTimes,
        clock: Clock,
        concluded: Callable[[RunningPod, PodExited], None],
        processes: PodProcesses,
    ) -> None:
        self._home = home
        self._watch = watch
        self._lock = lock
        self._running = running
        self._start_times = start_times
        self._clock = clock
        self._concluded = concluded
        self._processes = processes

    def signal_stop(self, run: RunningPod) -> None:
        """Signal the supervisor to stop. The caller holds the lock, so that the pidfd stays open."""
        if run.process >= 0:
            self._processes.signal_supervisor(run.process, signal.SIGTERM)
            process, grace_s = run.process, parse_grace(pod_files.read(run.directory, pod_files.STOP))
            most_s = (_GRACE_MAX_S if grace_s is None else grace_s) + _ENFORCED_AFTER_S
            self._watch.later(most_s, lambda: self._enforce(run, process))

    def _enforce(self, run: RunningPod, process: int) -> None:
        """Kill a supervisor that didn't stop its pod in time: a job may have frozen the supervisor."""
        with self._lock:
            if run.process == process:
                self._processes.signal_supervisor(process, signal.SIGKILL)

    def on_forked(self, name: str, process: int | None, refused: str = "") -> None:
        """Watch a forked supervisor; without a process, check if its start is over.

        `refused`: why the node process didn't fork one.
        """
        with self._lock:
            run = self._running.get(name)
            if run is not None and run.process < 0 and process is not None:
                self._adopt(run, process)
                return
        if process is not None:
            os.close(process)
        if run is not None and run.process < 0:
            if refused:
                with suppress(OSError):  # on a full disk the pod counts as lost
                    ended = {"at_s": self._clock(), "error": f"It could not be started: {refused}."}
                    pod_files.write(run.directory, pod_files.EXIT, ended)
            self.check(run)

    def on_unready(self, name: str, why: str) -> None:
        """Count a start without a supervisor as lost: it needs a file that can't be read now."""
        with self._lock:
            run = self._running.get(name)
        if run is not None and run.process < 0:
            with suppress(OSError):  # on a full disk it counts as lost without a reason
                lost = {"at_s": self._clock(), "lost": True, "error": f"It could not be started: {why}."}
                pod_files.write(run.directory, pod_files.EXIT, lost)
            self.check(run)

    def _adopt(self, run: RunningPod, process: int) -> None:
        """Watch this process as the supervisor of a start. The caller holds the lock."""
        run.process = process
        run.since_s = self._clock()
        self._watch.add(process, lambda: self._on_exit(run))
        if run.stopping:
            self.signal_stop(run)

    def _on_exit(self, run: RunningPod) -> None:
        with self._lock:
            self.close_pidfd(run)
        self.check(run)

    def close_pidfd(self, run: RunningPod) -> None:
        """Close the pidfd of a supervisor. The caller holds the lock."""
        if run.process >= 0:
            self._watch.drop(run.process)
            os.close(run.process)
            run.process = -1

    def check(self, run: RunningPod) -> None:
        """Check a start without a supervisor: conclude it or adopt its supervisor; retry on failure."""
        again_s: float | None = _AFTER_FAILURE_S
        try:
            with suppress(OSError):  # processes remain, or the machine lacks resources
                again_s = self._check_once(run)
        finally:
            if again_s is not None:
                self._watch.later(again_s, lambda: self.check(run))

    def _check_once(self, run: RunningPod) -> float | None:
        """Conclude a start or adopt its supervisor; return in how long to look again, if at all."""
        if self._running.get(self._home.start_name(run.directory)) is not run or run.process >= 0:
            return None
        latest_s = self._start_times.latest_s(run)
        over = conclude_start(run.directory, run.groups, latest_s, self._processes)
        if over is not None:
            self._concluded(run, over.exited(run.place.pod, run.start, run.at_s, latest_s))
            return None
        process = pod_files.open_supervisor(run.directory)
        if process is not None:
            with self._lock:
                self._adopt(run, process)
            return None
        run.locked_checks += 1
        if run.locked_checks % _MAX_LOCKED_CHECKS == 0:
            # The job killed its supervisor and took its lock
            self._processes.kill_all(run.directory, run.groups)
        return _AGAIN_S
