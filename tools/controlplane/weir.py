"""Weir beside a control plane, as people run it: a process, to be stopped, killed and started again."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.controlplane.api import Api, Object
from tools.controlplane.plane import ControlPlane
from tools.controlplane.queries import AGGREGATED
from tools.prefork import Process

ROOT = Path(__file__).resolve().parent.parent.parent
_STOP_S = 120.0
_KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "weir.dev"


def install_kinds(api: Api) -> None:
    """Have the API server serve Weir's kinds, unless it does since an earlier call."""
    from weir.kubernetes.crd.definitions import definitions

    if api.url in _served and _served[api.url] == _versions(api):
        return
    names = [kind["metadata"]["name"] for kind in definitions()]
    api.apply(*definitions())
    end = time.monotonic() + 120
    while not (all(_is_served(api, name) for name in names) and _is_discovered(api, names)):
        if time.monotonic() > end:
            raise TimeoutError(f"the API server doesn't serve all of {', '.join(names)}")
        time.sleep(0.05)
        if any(api.maybe(f"{_KINDS}/{name}") is None for name in names):  # an earlier test had deleted them
            api.apply(*definitions())
    _served[api.url] = _versions(api)


_served: dict[str, dict[str, str]] = {}
"""By API server: the kinds that were served at the end of `install_kinds`, and their versions."""


def _versions(api: Api) -> dict[str, str]:
    definitions = api.metadata(_KINDS)
    return {
        definition["name"]: f"{definition['uid']} {definition['generation']}"
        for definition in definitions
        if _GROUP in definition["name"]
    }


def _is_served(api: Api, name: str) -> bool:
    answer = (api.maybe(f"{_KINDS}/{name}") or {}).get("status", {}).get("conditions") or []
    if not any(one["type"] == "Established" and one["status"] == "True" for one in answer):
        return False
    return api.maybe(f"/apis/{_GROUP}/v1alpha1/{name.partition('.')[0]}?limit=1") is not None


def _is_discovered(api: Api, names: Sequence[str]) -> bool:
    """Return True if discovery names these kinds, by which kubectl finds them."""
    groups = api.get("/apis", AGGREGATED)["items"]
    discovered = {
        f"{resource['resource']}.{group['metadata']['name']}"
        for group in groups
        for version in group["versions"]
        for resource in version["resources"]
    }
    return discovered >= set(names)


def project(name: str, gpus: int, namespaces: Sequence[str] = (), **spec: object) -> Object:
    """Return a Project with a quota of GPUs, for the namespace of its name unless others are given."""
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": name},
        "spec": {"quota": {"gpu": gpus}, "namespaces": list(namespaces) or [name], **spec},
    }


class Weir:
    """`weir up --on kubernetes` with a kubeconfig, and what it says in a log."""

    def __init__(
        self,
        plane: ControlPlane,
        kubeconfig: Path,
        *,
        name: str = "weir",
        arguments: Sequence[str] = (),
        port: int = 0,
        aloud: bool = False,
    ) -> None:
        self.home = plane.directory / name
        self.log = plane.directory / f"{name}.log"
        self.starts = 0
        self._plane = plane
        self._kubeconfig = kubeconfig
        self._arguments = list(arguments)
        self._port = port
        self._aloud = aloud
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _why: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.stop()

    def command(self) -> list[str]:
        """Return the command of the process."""
        words = ["up", "--on", "kubernetes", "--port", str(self._port), *self._arguments]
        return [sys.executable, "-m", "weir", *words]

    def environment(self) -> dict[str, str]:
        """Return the environment of the process, with Weir from the place where this interpreter has it."""
        return {"KUBECONFIG": str(self._kubeconfig), "WEIR_HOME": str(self.home)}

    def start(self) -> None:
        """Run it."""
        assert self._process is None, "it runs"
        self._process = self._plane.run_beside(
            self.log.stem, self.command(), self.environment(), aloud=self._aloud
        )
        self.starts += 1

    def stop(self) -> None:
        """End it in order, as an administrator does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it the hard way."""
        self._end(signal.SIGKILL)

    @property
    def is_started(self) -> bool:
        """Return True from its start to its end by `stop` or `kill`."""
        return self._process is not None

    def check(self) -> None:
        """Raise if it has ended by itself."""
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"Weir ended with {code}; the last it said:\n{self.log_text()[-3000:]}"

    def log_text(self) -> str:
        """Return the whole log."""
        return self.log.read_text(errors="replace")

    def lines(self, event: str) -> Iterator[dict[str, Any]]:
        """Yield its log lines of one event, oldest first."""
        return log_lines(self.log_text(), event)

    def engine(self) -> str:
        """Return the engine that the running process said it runs: compiled, or the sources."""
        started = list(self.lines("started"))
        assert started, "it hasn't started yet"
        return str(started[-1]["engine"])

    def memory_mib(self) -> float:
        """Return the memory of the process."""
        assert self._process is not None
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu_s(self) -> float:
        """Return the processor time since the start."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._plane.stop_beside(self.log.stem, how, _STOP_S)
            self._process = None


def log_lines(log: str, event: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a log that tell of one event, oldest first."""
    for line in log.splitlines():
        if f'"event": "{event}"' in line:
            try:
                yield json.loads(line)
            except ValueError:
                continue  # it is being written
