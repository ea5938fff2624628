"""Progress of Weir's watch of pods at each binding, from the versions that the proxy passed on.

A watch delivers versions in order. A client that has one version has all before it.
"""

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable

from tools.controlplane.proxy import Asked

WITHIN_S = 5.0
"""Time after which Weir has read what the proxy passed on, also on a machine with several times its load."""
PODS = "/api/v1/pods"
_BINDING = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding")
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


class WatchProgress:
    """Reads the pods that the proxy passes on, and the bindings that Weir asks for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed: deque[tuple[float, int]] = deque()  # versions, and when each was passed on
        self._surely = 0  # the newest of those that were passed on long enough ago
        self._knew: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}
        self._passed_s: list[tuple[int, float]] = []  # every version, and when it was passed on

    def __call__(self, asked: Asked) -> Callable[[bytes], None] | None:
        """Return what reads the answer to a request; None if it isn't about pods."""
        binding = _BINDING.fullmatch(asked.path)
        if binding is not None:
            self._asks("/".join(binding.groups()), asked.since_s)
            return None
        if asked.verb != "GET" or asked.path != PODS:
            return None
        return self._watched() if asked.watch else self._listed()

    def restart(self) -> None:
        """Forget everything: the process that read it is dead."""
        with self._lock:
            self._passed.clear()
            self._passed_s.clear()
            self._surely = 0

    def before_binding(self, pod: str) -> int | None:
        """Return the version that Weir surely knew when it asked for a pod (NAMESPACE/NAME) to be bound."""
        with self._lock:
            return self._knew.get(pod)

    def _asks(self, pod: str, since_s: float) -> None:
        with self._lock:
            while self._passed and self._passed[0][0] < since_s - WITHIN_S:
                self._surely = max(self._surely, self._passed.popleft()[1])
            self._knew.setdefault(pod, self._surely)
            self._asked_s.setdefault(pod, since_s)

    def known_for_s(self, pod: str, version: int) -> float:
        """Return how long Weir had known a version when it asked for a pod to be bound; 0 if it hadn't."""
        with self._lock:
            passed_s = min((at_s for passed, at_s in self._passed_s if passed >= version), default=None)
            asked_s = self._asked_s.get(pod)
        return 0.0 if passed_s is None or asked_s is None else max(0.0, asked_s - passed_s)

    def _passes(self, version: int) -> None:
        with self._lock:
            self._passed.append((time.monotonic(), version))
            self._passed_s.append((version, time.monotonic()))

    def _watched(self) -> Callable[[bytes], None]:
        begun = b""

        def hear(part: bytes) -> None:
            nonlocal begun
            *lines, begun = (begun + part).split(b"\n")
            for line in lines:
                found = _VERSION.search(line)
                if found is not None:
                    self._passes(int(found[1]))

        return hear

    def _listed(self) -> Callable[[bytes], None]:
        parts: list[bytes] = []

        def hear(part: bytes) -> None:
            if part:
                parts.append(part)
                return
            metadata = json.loads(b"".join(parts)).get("metadata", {})
            if metadata.get("resourceVersion") and not metadata.get("continue"):
                self._passes(int(metadata["resourceVersion"]))

        return hear
