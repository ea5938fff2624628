"""Audit of all events of pods, in their order, against the invariants.

It asks the API server directly, with no fault in between, so that nothing escapes it. After every single
event:

- no pod that Weir binds makes it more devices than the node has: with all of Weir's own pods there that are not
  over, and with those of other schedulers that Weir had surely been told of before it asked for the binding
  (`told.py`; two bindings at the same moment are undecidable, and pods that others bind are the others' matter);
- no two pods that Weir bound have the same device;
- no two pods of a workload that are there have the same start number;
- a gang of which some pods are bound and not as many as it needs becomes whole or nothing again in time.
"""

import http.client
import json
import re
import ssl
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.kubernetes.watch_progress import WatchProgress
from tools.controlplane.api import Object
from tools.controlplane.plane import ControlPlane

GANG = "churn/gang"
"""Label of pods: how many of them have to run at once."""
OVER = ("Succeeded", "Failed")
OURS = "weir"


@dataclass(slots=True)
class Seen:
    """A pod as it was last seen."""

    name: str
    name_there: str  # with its namespace
    job: str
    node: str
    gpus: int
    devices: frozenset[str]
    start: str
    phase: str
    going: bool
    needs: int
    ours: bool
    owner: str  # its kind
    bound_at: int = 0  # the version with which it was first seen on its node

    @property
    def holds(self) -> bool:
        return bool(self.node) and self.phase not in OVER


@dataclass(slots=True)
class Partial:
    """Since when a gang has been in part, and how long it ever was."""

    since_s: float | None = None
    longest_s: float = 0.0


class Audit:
    """Begun before anything happens; `wrong` is what must not have been."""

    def __init__(self, plane: ControlPlane, capacity: dict[str, int], reported: WatchProgress) -> None:
        self.plane = plane
        self.capacity = capacity
        self.progress = reported
        self.wrong: list[str] = []
        self.pods: dict[str, Seen] = {}
        self.gangs: dict[str, Partial] = defaultdict(Partial)
        self.story: list[str] = []
        self.counts: Counter[str] = Counter()
        self._succeeded: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self._closing = False
        self._began_s = time.monotonic()
        self._since = self.plane.api.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        self._at = urlsplit(self.plane.url)
        self._tls = ssl.create_default_context(cafile=str(self.plane.authority.certificate))
        self._tls.load_cert_chain(self.plane.admin.certificate, self.plane.admin.key)
        self._connection = self._connect()
        self._thread = threading.Thread(target=self._watch, name="audit", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        sock = self._connection.sock
        if sock is not None:
            sock.shutdown(2)
        self._thread.join(120)
        self._connection.close()

    def longest_partial_s(self) -> float:
        """The longest that any gang has been in part, up to now."""
        now_s = time.monotonic()
        with self._lock:
            spans = [
                max(one.longest_s, 0.0 if one.since_s is None else now_s - one.since_s)
                for one in self.gangs.values()
            ]
        return max(spans, default=0.0)

    def reported(self, about: str, last: int = 30) -> str:
        """Return the history of an object, for the reader of a failure."""
        return "\n".join([line for line in self.story if about in line][-last:])

    # Its own thread

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._at.hostname or "", self._at.port, context=self._tls)

    def _watch(self) -> None:
        while not self._closing:
            try:
                self._connection.request("GET", f"/api/v1/pods?watch=true&resourceVersion={self._since}")
                answer = self._connection.getresponse()
                while line := answer.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        self.wrong.append(f"the audit lost its watch: {event['object']}")
                        return
                    with self._lock:
                        self._see(event["type"], event["object"])
                    self._since = event["object"]["metadata"]["resourceVersion"]
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                self._connection.close()
                self._connection = self._connect()

    def _see(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        before = self.pods.get(uid)
        now = None if kind == "DELETED" else _seen(pod)
        about = now or before
        if about is None:
            return
        self._count(about, before, now)
        if now is None:
            del self.pods[uid]
        else:
            if now.node:
                now.bound_at = int(pod["metadata"]["resourceVersion"])
                if before is not None and before.node:
                    now.bound_at = before.bound_at
            self.pods[uid] = now
            if before is not None and before.phase not in OVER and now.phase == "Succeeded":
                self._succeeded[now.job] += 1
        self._note(kind, before, now or about)
        if before is not None and before.node and now is not None and now.node != before.node:
            self.wrong.append(f"{now.name} was bound to {before.node} and then to {now.node}")
        if now is not None and now.ours and now.holds and not (before is not None and before.holds):
            self._check_node(now)
            self._check_start(now)
        if about.needs > 1:
            self._check_gang(about.job, about.needs)

    def _count(self, about: Seen, before: Seen | None, now: Seen | None) -> None:
        """For the report."""
        whose = "" if about.ours else "theirs "
        was_over = before is not None and before.phase in OVER
        was_bound = before is not None and before.node
        self.counts["events"] += 1
        self.counts[f"{whose}created"] += before is None
        self.counts[f"{whose}deleted"] += now is None
        if now is not None:
            self.counts[f"{whose}bound"] += bool(now.node) and not was_bound
            if now.phase in OVER and not was_over:
                self.counts[f"{whose}{now.phase.lower()}"] += 1

    def _note(self, kind: str, before: Seen | None, now: Seen) -> None:
        if kind == "MODIFIED" and before is not None and _words(before) == _words(now):
            return
        self.story.append(
            f"{time.monotonic() - self._began_s:7.2f} {kind:8} {now.job} {now.name} {_words(now)}"
        )

    def _check_node(self, new: Seen) -> None:
        there = [pod for pod in self.pods.values() if pod.node == new.node and pod.holds]
        knew = self.progress.before_binding(new.name_there)
        if knew is None:
            self._complain(f"{new.name} was bound, and Weir never asked for it", new.name)
            return
        known = [pod for pod in there if pod.ours or pod.bound_at <= knew]
        self.counts["beside theirs"] += any(not pod.ours for pod in known)
        for owner in {pod.owner for pod in known if not pod.ours}:
            self.counts[f"beside pods of a {owner or 'person'}"] += 1
        has = self.capacity.get(new.node, 0)
        taken = sum(pod.gpus for pod in known)
        if taken > has:
            others = ", ".join(
                f"{pod.name}, known for {self.progress.known_for_s(new.name_there, pod.bound_at):.1f} s"
                for pod in known
                if not pod.ours
            )
            sentence = f"{new.name} makes it {taken} GPUs on {new.node}, which has {has} (beside {others})"
            self._complain(sentence, new.node)
        elif sum(pod.gpus for pod in there) > has:
            self.counts["races with theirs"] += 1
        for pod in there:
            both = pod.devices & new.devices
            if pod is not new and both:
                self._complain(
                    f"{pod.name} and {new.name} both have devices {sorted(both)} of {new.node}", new.node
                )
        if len(new.devices) != new.gpus:
            self._complain(
                f"{new.name} asks for {new.gpus} GPUs and was given {sorted(new.devices)}", new.name
            )

    def _check_start(self, new: Seen) -> None:
        """Starts that were never heard of again may lend their number; those that are there may not."""
        for pod in self.pods.values():
            if pod is not new and pod.job == new.job and pod.holds and pod.start == new.start:
                self._complain(f"{pod.name} and {new.name} are both start {new.start} of {new.job}", new.job)

    def _check_gang(self, job: str, needs: int) -> None:
        held = sum(pod.holds and not pod.going for pod in self.pods.values() if pod.job == job)
        rest = max(0, needs - self._succeeded[job])
        partial, now_s = self.gangs[job], time.monotonic()
        if 0 < held < rest:
            partial.since_s = partial.since_s or now_s
        elif partial.since_s is not None:
            partial.longest_s = max(partial.longest_s, now_s - partial.since_s)
            partial.since_s = None

    def _complain(self, sentence: str, about: str) -> None:
        self.wrong.append(f"{sentence}\n{self.reported(about)}")


def _seen(pod: Object) -> Seen:
    metadata, spec = pod["metadata"], pod["spec"]
    marks, labels = metadata.get("annotations", {}), metadata.get("labels", {})
    owners: list[dict[str, Any]] = metadata.get("ownerReferences", [])
    asks = spec["containers"][0].get("resources", {}).get("limits", {})
    return Seen(
        name=metadata["name"],
        name_there=f"{metadata['namespace']}/{metadata['name']}",
        job=f"{metadata['namespace']}/{owners[0]['name'] if owners else metadata['name']}",
        node=spec.get("nodeName", ""),
        gpus=int(asks.get("nvidia.com/gpu", 0)),
        devices=frozenset(filter(None, re.split(r"[, ]+", marks.get("weir.dev/gpus", "")))),
        start=marks.get("weir.dev/start", ""),
        phase=pod["status"].get("phase", ""),
        going="deletionTimestamp" in metadata,
        needs=int(labels.get(GANG, 1)),
        ours=spec["schedulerName"] == OURS,
        owner=owners[0]["kind"] if owners else "",
    )


def _words(pod: Seen) -> str:
    going = " going" if pod.going else ""
    return f"{pod.phase}{going} on {pod.node or 'nothing'} {','.join(sorted(pod.devices))} start {pod.start or '-'}"
