"""A pool for several users: `weir node` as root, its server as a user of its own, and people who ask it."""

import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .installed_server import ask_socket
from .service_group import make_service_group, remove_service_group

LIMIT_S = 120.0
ROOT = pwd.getpwuid(0)


class SharedPool:
    """The pool, and what its users do. `places` is a directory that every user can enter.

    `unmounted` are file systems that this pool alone doesn't see; `options` are of its server.
    """

    def __init__(
        self,
        places: Path,
        python: str,
        server: pwd.struct_passwd,
        gpu_files: Sequence[Path] = (),
        unmounted: Sequence[str] = (),
        options: Sequence[str] = ("--virtual-gpus", "4"),
    ) -> None:
        self.home = places / "home"
        self.socket = places / "run" / "weir.sock"
        self.python = python
        self.server_user = server
        files = [f"--gpu-file={each}" for each in gpu_files]
        hides = "".join(f"umount {each} && " for each in unmounted)
        alone = ["unshare", "--mount", "sh", "-c", f'{hides}exec "$@"', "sh"] if unmounted else []
        self._group = make_service_group()
        enters = (
            ["sh", "-c", f'echo 0 > {self._group}/cgroup.procs && exec "$@"', "sh"] if self._group else []
        )
        self._command = [
            *(
                *enters,
                *alone,
                python,
                "-I",
                "-m",
                "weir",
                "node",
                "--user",
                server.pw_name,
                "--home",
                str(self.home),
            ),
            *("--socket", str(self.socket), *files, "--", *options, "--port", "0"),
            *("--log-level", "warning"),
        ]
        self.begin()

    def begin(self) -> None:
        """Start the node process, and wait until its server answers."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.process = subprocess.Popen(self._command, env=environment, cwd="/", stdout=subprocess.DEVNULL)
        until(self._answers)

    def _answers(self) -> bool:
        assert self.process.poll() is None, "it didn't begin"
        try:
            self.server_pid = int(json.loads((self.home / "server.json").read_text())["pid"])
            return (
                self.parent_of(self.server_pid) == self.process.pid
                and self.ask(ROOT, "GET", "/readyz")[0] == 200
            )
        except (OSError, ValueError):
            return False

    @staticmethod
    def parent_of(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def kill(self, *, node: bool, server: bool) -> None:
        """Kill node process or server; the other one ends by itself. Then start both again."""
        for pid in [*([self.process.pid] if node else []), *([self.server_pid] if server else [])]:
            with suppress(ProcessLookupError):  # the server ends with its node process
                os.kill(pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        until(lambda: not Path(f"/proc/{self.server_pid}").exists())
        self.begin()

    def end(self) -> None:
        """Stop all jobs, and then the pool."""
        while rows := self.ask(ROOT, "GET", "/api/v1/workloads?limit=1000")[1]["items"]:
            for row in rows:
                self.ask(ROOT, "POST", f"/api/v1/workloads/{row['name']}/stop")
            time.sleep(0.05)
        self.process.terminate()
        self.process.wait(LIMIT_S)
        self.remove_group()

    def remove_group(self) -> None:
        """Remove the control group of the service, once its processes have ended."""
        if self._group is not None:
            remove_service_group(self._group)

    def ask(
        self,
        user: pwd.struct_passwd,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return status and answer of a request of a user over the socket of the machine."""
        return ask_socket(self.socket, user.pw_uid, method, path, body, headers, user.pw_gid)

    def weir(self, user: pwd.struct_passwd, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `weir` as a user who has logged in."""
        begun = self.begin_weir(user, *words)
        output, errors = begun.communicate(timeout=LIMIT_S)
        return subprocess.CompletedProcess(words, begun.returncode, output, errors)

    def begin_weir(self, user: pwd.struct_passwd, *words: str) -> subprocess.Popen[str]:
        """Begin a command of `weir` as a user who has logged in."""
        program = (
            "import sys; from pathlib import Path; from weir.client import address; "
            "address.MACHINE = Path(sys.argv.pop(1)); from weir.cli.main import main; sys.exit(main())"
        )
        return subprocess.Popen(
            [self.python, "-I", "-c", program, str(self.socket.parent), *words],
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            cwd=user.pw_dir,
            env={"HOME": user.pw_dir, "PATH": "/usr/bin:/bin", "USER": user.pw_name},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def add_member(self, user: pwd.struct_passwd, project: str) -> None:
        """Let a user act in a project."""
        path = f"/api/v1/projects/{project}/members/{user.pw_name}"
        status, answer = self.ask(ROOT, "PUT", path, {"role": "member"})
        assert status == 200, answer

    def submit(self, user: pwd.struct_passwd, name: str, *command: str, **fields: Any) -> None:
        """Submit a workload as a user."""
        pods = [{"gpus": fields.pop("gpus", 1), "cpu": "100m", "count": fields.pop("pods", 1)}]
        body = {"project": "default", "name": name, "command": list(command), "pods": pods, **fields}
        status, answer = self.ask(user, "POST", "/api/v1/workloads", body)
        assert status == 201, answer

    def row(self, name: str) -> Any:
        """Return a workload with all its details."""
        return self.ask(ROOT, "GET", f"/api/v1/workloads/{name}")[1]

    def wait(self, name: str, *statuses: str) -> Any:
        """Wait until a workload has one of these statuses; return it."""
        until(lambda: self.row(name)["status"] in statuses, lambda: self.row(name))
        return self.row(name)

    def log(self, name: str) -> str:
        """Return the output of the last start of a workload's first pod."""
        return "".join(path.read_text() for path in self.logs(name)[-1:])

    def logs(self, name: str) -> list[Path]:
        """Return the files with the output of a workload, in the order of its starts."""
        directory = self.home / "jobs" / str(self.row(name)["uid"])
        return sorted(directory.glob("*/log"), key=lambda path: int(path.parent.name.split("-")[0]))

    def says(self, name: str, text: str) -> str:
        """Wait until the output of a workload has a text; return it all."""
        until(lambda: text in self.log(name), lambda: (self.row(name), self.log(name)))
        return self.log(name)

    def running(self, name: str) -> dict[str, Any]:
        """Return the record of the process of a running workload's first pod."""
        directory = self.home / "pods" / str(self.row(name)["uid"])
        found: list[dict[str, Any]] = []

        def see() -> bool:
            texts = [path.read_text() for path in sorted(directory.glob("*/running.json"))]
            found[:] = [json.loads(text) for text in texts if text]
            return bool(found)

        until(see)
        return found[-1]


@contextmanager
def shared_pool(
    places: Path, python: str, server: pwd.struct_passwd, gpu_files: Sequence[Path] = (), **more: Any
) -> Iterator[SharedPool]:
    """Serve several users until the block ends."""
    pool = SharedPool(places, python, server, gpu_files, **more)
    try:
        yield pool
        pool.end()
    finally:
        if pool.process.poll() is None:
            pool.process.kill()
            pool.process.wait()


def until(true: Callable[[], object], tell: Callable[[], object] = lambda: "") -> None:
    """Wait until something is so."""
    begun = time.monotonic()
    while not true():
        waited_s = time.monotonic() - begun
        assert waited_s < LIMIT_S, f"it never came: {tell()}"
        time.sleep(min(0.3, 0.03 + waited_s / 8))  # each look is a request
