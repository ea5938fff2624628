"""A control plane with nodes that only pretend, for one case after another, and what each case costs."""

import compileall
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, install_kinds, log_lines, project

import weir as weir_package
from bench.kube_made import Bare, Count
from bench.processes import cpu_s

Row = dict[str, object]
GPUS = 8
AT_ONCE = 128
GANG = 512
STALLED_S = 600
FEW = 20  # pods below which no rate is reported
RESTING_WRITES = 100  # a second, of a control plane that has little to do
DEBUG = ("--log-level=debug",)  # so that it says how long its plans took
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kube-scheduler")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Rig:
    """A control plane with its nodes, and the rows measured on it."""

    def __init__(self, plane: ControlPlane, nodes: int, *, webhooks: bool = False) -> None:
        self.plane = plane
        self.webhooks = webhooks
        self.engine = ""  # as the last Weir said
        self.cluster = Cluster(plane, patience_s=STALLED_S)
        self.gpus = nodes * GPUS
        self.names = self.cluster.add_nodes(nodes, gpus=GPUS)
        self.bare = Bare(plane, at_once=AT_ONCE)
        self.rates: dict[str, float] = {}
        install_kinds(plane.api)
        compileall.compile_dir(weir_package.__path__[0], quiet=2)

    def install(self) -> Installed:
        """Apply the manifests of a Weir that has yet to be started."""
        return Installed(self.plane, webhooks=self.webhooks, extra=DEBUG)

    @contextmanager
    def weir(self, installed: Installed | None = None) -> Iterator[Weir]:
        """Weir, started now."""
        with installed or self.install() as running:
            self.cluster.until(lambda: any(running.lines("started")) or running.check(), "Weir to start")
            self.engine = running.engine()
            yield running

    @contextmanager
    def teams(self, **quota_gpus: int) -> Iterator[None]:
        """Projects with a namespace each; afterwards none of them and none of their work is left."""
        for name, gpus in quota_gpus.items():
            self.cluster.namespace(name)
            self.plane.api.apply(project(name, gpus))
        try:
            yield
        finally:
            for name in quota_gpus:
                self.plane.api.delete(f"/apis/batch/v1/namespaces/{name}/jobs", grace_s=0)
                self.plane.api.delete(f"/api/v1/namespaces/{name}/pods", grace_s=0)
            self.cluster.until(lambda: not self.any_pods(), "the pods to be gone")
            for name in quota_gpus:
                self.plane.api.delete(f"/apis/weir.dev/v1alpha1/projects/{name}")
                self.plane.api.delete(f"/api/v1/namespaces/{name}")

    def any_pods(self) -> bool:
        """Return True if a pod is left; delete those that Jobs made meanwhile."""
        left = self.plane.api.items("/api/v1/pods?limit=1")
        for one in left:
            self.plane.api.delete(f"/api/v1/namespaces/{one['metadata']['namespace']}/pods", grace_s=0)
        return bool(left)

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """The stock scheduler, started now."""
        self.plane.start_scheduler()
        try:
            yield
        finally:
            self.plane.kill("kube-scheduler")

    def rest(self) -> None:
        """Wait until nothing of what was before is left: KWOK and controllers work on after the last pod."""
        end = time.monotonic() + STALLED_S
        before = -RESTING_WRITES
        while (count := self.revision()) - before >= RESTING_WRITES and time.monotonic() < end:
            before = count
            time.sleep(1)

    def revision(self) -> int:
        """Return the revision of the store, which every write raises by one."""
        return int(self.plane.api.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"])

    def spent(self, weir: Weir | None = None) -> dict[str, float]:
        """Seconds of processor time used so far, by program."""
        used = {}
        for name in PROGRAMS:
            try:
                used[name] = cpu_s(self.plane.pid(name))
            except (KeyError, FileNotFoundError):
                continue
        used["benchmark"] = time.process_time()
        if weir is not None:
            used["weir"] = weir.cpu_s()
        return used

    def requests(self) -> Counter[str]:
        """Writes the API server has answered so far, by what they were to."""
        count: Counter[str] = Counter()
        for line in self.plane.api.text("/metrics").splitlines():
            if line.startswith("apiserver_request_total{"):
                answer = dict(_LABEL.findall(line))
                if answer["verb"] not in {"GET", "LIST", "WATCH"}:
                    to = "/".join(filter(None, (answer["resource"], answer["subresource"])))
                    count[f"{answer['verb']} {to} {answer['code']}"] += int(float(line.rpartition(" ")[2]))
        return count


class Measured:
    """Pods bound and running from here on, and what it cost."""

    def __init__(self, rig: Rig, weir: Weir | None = None, labels: str = "") -> None:
        self._rig = rig
        self._weir = weir
        self._bound = Count(rig.plane, "spec.nodeName!=", labels)
        self._running = Count(rig.plane, "status.phase=Running", labels)
        self._before: dict[str, float] = {}
        self._requests: Counter[str] = Counter()
        self._logged = 0

    def __enter__(self) -> Self:
        self._bound.__enter__()
        self._running.__enter__()
        self._requests = self._rig.requests()
        self._before = self._rig.spent(self._weir)
        self._logged = len(self._weir.log_text()) if self._weir else 0
        self.began = time.perf_counter()
        return self

    def __exit__(self, *why: object) -> None:
        self._running.__exit__(None, None, None)
        self._bound.__exit__(None, None, None)

    def until_running(self, count: int, weir: Weir | None = None, *, starts: bool = True) -> Row:
        """Wait until this number of pods runs; return the row. `starts`: leave out time before the first."""
        watched = weir or self._weir
        alive = watched.check if watched else lambda: None
        self._bound.until(1, STALLED_S, alive)
        by_first = self._rig.spent(watched) if starts else self._before
        self._bound.until(count, STALLED_S, alive)
        bound = self._bound.at_s[:count]
        by_last = self._rig.spent(watched)
        self._running.until(count, STALLED_S, alive)
        after = self._rig.spent(watched)
        row: Row = {
            "pods": count,
            "seconds": round(self._running.at_s[count - 1] - self.began, 2),
            "first_s": round(bound[0] - self.began, 2),
            "bound_s": round(bound[-1] - self.began, 2),
            "binding_cpu_s": difference(by_last, by_first),
            "bound_cpu_s": difference(by_last, self._before),
            "cpu_s": difference(after, self._before),
            "writes": dict((self._rig.requests() - self._requests).most_common(20)),
        }
        if count > FEW:
            row["per_second"] = round((count - 1) / max(1e-9, bound[-1] - bound[0]))
        if watched is not None:
            row["weir_mib"] = round(watched.memory_mib())
            took_s = [line["took_s"] for line in log_lines(watched.log_text()[self._logged :], "planned")]
            row["plans"], row["plan_ms_max"] = len(took_s), round(1000 * max(took_s, default=0.0))
        return row


def difference(later: dict[str, float], earlier: dict[str, float]) -> dict[str, float]:
    """Return the difference of two measurements, by program."""
    return {name: round(used - earlier.get(name, 0.0), 2) for name, used in later.items()}


# Cases
