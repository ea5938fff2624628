"""Process 1 of a node, in a process and a mount namespace of its own. With it, the kernel ends all others.

    unshare --pid --fork --mount --mount-proc python -m tools.node.inside DIRECTORY

It reads lines from its standard input, `restart NAME`, and ends when that does. A program that ends by itself
ends the node; `ended` in the directory then names it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tools.node.settings import KERNEL, SOCKET, NodeSettings

_READY_S = 120.0
_PRIVATE = ("/run", "/var/lib")
_DIRECTORIES = (
    "/run/netns",
    "/run/cdi",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/plugins_registry",
)


class Node:
    """The programs of this node."""

    def __init__(self, settings: NodeSettings) -> None:
        self._directory = Path(settings.directory)
        programs = settings.programs
        self._environment = {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin", "GOGC": "400"}
        self._commands = {
            "containerd": [f"{programs}/containerd", "--config", f"{self._directory}/containerd.toml"],
            "kubelet": [
                *(f"{programs}/kubelet", f"--config={self._directory}/kubelet.json"),
                *(f"--kubeconfig={settings.kubeconfig}", f"--hostname-override={settings.name}"),
                f"--node-labels={settings.labels}",
                *("--root-dir=/var/lib/kubelet", "--housekeeping-interval=30s"),
            ],
            "gpuplugin": [
                *(f"{programs}/gpuplugin", "serve", str(settings.gpus)),
                f"{self._directory}/unhealthy",
            ],
            "draplugin": [
                *(f"{programs}/draplugin", settings.name, settings.driver),
                *(str(settings.claimable), str(settings.divisible)),
            ],
        }
        self._plugins = [
            *(["gpuplugin"] if settings.gpus else []),
            *(["draplugin"] if settings.claimable else []),
        ]
        self._import = [f"{programs}/ctr", "--address", SOCKET, "--namespace", "k8s.io", "images", "import"]
        self._running: dict[int, str] = {}
        self._lock = threading.Lock()

    def run(self) -> int:
        """Start everything, then reap processes until a program ends."""
        self._start("containerd")
        self._import_image()
        for name in (*self._plugins, "kubelet"):
            self._start(name)
        threading.Thread(target=self._obey, daemon=True).start()
        while True:
            pid, status = os.wait()
            with self._lock:
                name = self._running.pop(pid, "")
            if name:
                code = os.waitstatus_to_exitcode(status)
                (self._directory / "ended").write_text(f"{name} ended with {code}")
                return 1

    def _start(self, name: str) -> None:
        with (self._directory / f"{name}.log").open("ab") as log:
            with self._lock:
                begun = subprocess.Popen(
                    self._commands[name],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment,
                    cwd="/",
                )
                self._running[begun.pid] = name
            begun.returncode = 0  # this process reaps it, with all others

    def _import_image(self) -> None:
        end = time.monotonic() + _READY_S
        while True:
            done = subprocess.run(
                [*self._import, f"{self._directory}/image.tar"], check=False, capture_output=True, text=True
            )
            if done.returncode == 0:
                return
            if time.monotonic() > end:
                (self._directory / "ended").write_text(f"no image was imported: {done.stderr.strip()}")
                os._exit(1)
            time.sleep(0.1)

    def _obey(self) -> None:
        for line in sys.stdin:
            word, _, name = line.strip().partition(" ")
            if word == "restart":
                self._restart(name)
        os._exit(0)

    def _restart(self, name: str) -> None:
        with self._lock:
            held = [pid for pid, running in self._running.items() if running == name]
            for pid in held:
                del self._running[pid]  # its end is no end of the node
                os.kill(pid, signal.SIGKILL)
        for pid in held:
            with contextlib.suppress(ChildProcessError):  # it was reaped already
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # until then it keeps its ports
        self._start(name)


def mount() -> None:
    """Hide the directories of the machine that the programs would write to."""
    for place in _PRIVATE:
        _mount("-t", "tmpfs", "node", place)
    for directory in _DIRECTORIES:
        Path(directory).mkdir(parents=True)
    settings = Path("/run/kernel")
    settings.mkdir()
    for name, value in KERNEL.items():
        own = settings / name.replace("/", ".")
        own.write_text(f"{value}\n")
        _mount("--bind", str(own), f"/proc/sys/{name}")


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def main() -> int:
    """Run from the command line."""
    settings = NodeSettings.read(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    mount()
    return Node(settings).run()


if __name__ == "__main__":
    sys.exit(main())
