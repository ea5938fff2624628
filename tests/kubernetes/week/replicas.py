"""The instances of Weir: one as installed, another as its standby, and what ends them."""

import re
from pathlib import Path

from tools.controlplane.api import MERGE
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.queries import API_SERVICE
from tools.controlplane.weir import Weir

_HOOKS = "/apis/admissionregistration.k8s.io/v1"
_BAD = re.compile(r"control_broken|Traceback|cannot \w+ resource|settings_refused|unreadable", re.IGNORECASE)
"""Words that Weir's log never contains while every action of people is legal."""


class Standby(Weir):
    """A second instance of an installation."""

    def __init__(self, plane: ControlPlane, installed: Installed, kubeconfig: Path) -> None:
        super().__init__(plane, kubeconfig, name=f"{installed.log.stem}-standby")
        self._installed = installed
        self.port = free_port()

    def command(self) -> list[str]:
        words = self._installed.command()
        words[words.index("--port") + 1] = str(self.port)
        return words


class Replicas:
    """Instances of an installation; the API server calls the webhooks of one that runs.

    Args:
        plane: the control plane.
        installed: the first instance, which runs.
    """

    def __init__(self, plane: ControlPlane, installed: Installed) -> None:
        self._plane = plane
        self.installed = installed
        self.standby = Standby(plane, installed, plane.kubeconfig_of(installed.namespace, "weir"))
        self.running: list[Installed | Standby] = [installed]
        self._read = {installed.log: 0, self.standby.log: 0}

    @property
    def served(self) -> "Installed | Standby | None":
        """Return the instance whose webhooks are called and whose metrics are read."""
        return self.running[0] if self.running else None

    def end(self, *, at_once: bool) -> str:
        """End the instance that was started first: by SIGKILL, or in order."""
        gone = self.running.pop(0)
        if at_once:
            gone.kill()
        else:
            gone.stop()
        self._route()
        return gone.log.stem

    def start(self) -> str:
        """Start an instance that doesn't run."""
        new = self.installed if self.installed not in self.running else self.standby
        new.start()
        self.running.append(new)
        self._route()
        return new.log.stem

    def stop(self) -> None:
        """End all instances."""
        while self.running:
            self.end(at_once=False)

    def check(self) -> None:
        """Raise if an instance has ended by itself."""
        for each in self.running:
            each.check()

    def complaints(self) -> list[str]:
        """Return the new lines of the logs that tell of a failure."""
        found = []
        for log, read in self._read.items():
            if log.exists():
                with log.open("rb") as lines:
                    lines.seek(read)
                    new = lines.read().decode(errors="replace")
                self._read[log] = read + len(new.encode())
                found += [line for line in new.splitlines() if _BAD.search(line)]
        return found

    def leads(self) -> bool:
        """Return True if an instance that runs has said that it leads, and not that it doesn't any more."""
        return any(_leads(each) for each in self.running)

    def _route(self) -> None:
        """Point the webhooks and the API that Weir serves at the first instance, as their Service would."""
        if self.served is None:
            return
        for kind in ("mutating", "validating"):
            path = f"{_HOOKS}/{kind}webhookconfigurations/weir"
            found = self._plane.api.get(path)
            changes = []
            for at, hook in enumerate(found["webhooks"]):
                url = f"https://127.0.0.1:{self.served.port}"
                rest = hook["clientConfig"]["url"].split("/", 3)[3:]
                value = "/".join([url, *rest])
                changes.append({"op": "replace", "path": f"/webhooks/{at}/clientConfig/url", "value": value})
            self._plane.api.ask("PATCH", path, changes, "application/json-patch+json")  # type: ignore[arg-type]
        self._plane.api.patch(API_SERVICE, {"spec": {"service": {"port": self.served.port}}}, MERGE)


def _leads(weir: Weir) -> bool:
    answer = weir.log_text().rpartition('"event": "started"')[2]
    return answer.count('"event": "leading"') > answer.count("not_leading_any_more")
