"""Notice to stop in a pod of a cluster: SIGTERM, which the kubelet sends to the first process of a container.

Weir leaves no file in such a pod. The first call of `stopping` in the main thread installs the handler. As
process 1 of a container a program receives SIGTERM only if it has a handler. A handler of the program itself,
or of its framework, is called after ours.

An exit code of 0 tells Kubernetes that the Job is done, also while its pod is evicted. So a process that was
told to stop ends with another one.

This module uses only the standard library: a job must never fail because of its cluster.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

EXIT_CODE = 120
"""Exit code of a process that got the notice to stop, and ends by itself."""


def is_in_cluster() -> bool:
    """Return True in a pod of a cluster, unless a pool on one machine runs this process."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and not os.environ.get("WEIR_POD_DIRECTORY")


class StopSignal:
    """SIGTERM as notice to stop, in this process."""

    def __init__(self) -> None:
        self._is_received = self._is_answered = self._is_within = False
        self._previous: Any = signal.SIG_DFL

    def is_given(self) -> bool:
        """Return True after a SIGTERM that came since the first call in the main thread."""
        self._install()
        if self._is_received and not self._is_answered:
            self._is_answered = True
            atexit.register(_fail_at_the_end)
        return self._is_received

    def _install(self) -> None:
        """Install a handler before the present one; only the main thread can."""
        current = signal.getsignal(signal.SIGTERM)
        is_foreign = current is None  # None: a handler outside Python, which can't be called
        if current == self._handle or is_foreign or current_thread() is not main_thread():
            return
        with suppress(ValueError, OSError):  # in a subinterpreter
            signal.signal(signal.SIGTERM, self._handle)
            self._previous = current

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._is_received = True
        if self._is_within or not callable(self._previous):
            return
        self._is_within = True  # a handler installed later may call this one
        try:
            self._previous(number, frame)
        finally:
            self._is_within = False


class _LastErrors:
    """The error output of a process, for errors after its last flush."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> None:
        """Flush the stream; raise OSError while the interpreter ends."""
        self._stream.flush()
        if sys.is_finalizing():
            raise OSError("this process was told to stop")


def _fail_at_the_end() -> None:
    """Make this process exit with 120 after its other exit handlers.

    Python does so if a standard stream can't be flushed then, as `sys.exit` documents. That isn't documented
    for the error output.
    """
    sys.stderr = _LastErrors(sys.stderr)


STOP_SIGNAL = StopSignal()
