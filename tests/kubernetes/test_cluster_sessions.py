"""Sessions on a cluster, on a real kubelet: terminal, SSH and what builds on it, and Jupyter.

They run where a node can run, as `test_real_node.py` says, with the programs of `tests/session_programs.py`.
"""

import asyncio
import fcntl
import json
import os
import re
import signal
import socket
import stat
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from tests.e2e.ssh_session import (
    LIMIT_S,
    connected,
    ended,
    read_until,
    received,
    until,
    words_of,
)
from tests.kubernetes.node_session import (
    MOUNTS,
    SMALL,
    ClusterPerson,
    Notebook,
    execution,
    handshake,
)
from tests.session_programs import NEEDS_RSYNC, NEEDS_SSH, find_programs, need_programs
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.queries import wait_for_queries
from tools.controlplane.weir import project
from tools.node.image import IMAGE, MACHINE_PATH
from tools.node.node import RealNode
from tools.node.programs import Programs

GPUS = 4


EDITOR_SCRIPT = """
uname -s; mkdir -p PLACE && cd PLACE; echo here > marker
cat > server.py <<'END'
import http.server, sys
made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(made.server_port, file=open(sys.argv[1], "w"), flush=True)
made.serve_forever()
END
nohup setsid python3 server.py PLACE/port > /dev/null 2>&1 < /dev/null &
echo $! > pid
until [ -s port ]; do sleep 0.05; done
echo listeningOn==$(cat port)==
"""


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane, programs: Programs) -> Iterator[Cluster]:
    """A cluster with one real node, which the API server reaches by its name, and Weir."""
    found = Cluster(plane)
    plane.start_scheduler()
    path, mounts = MACHINE_PATH, MOUNTS
    if (web := find_programs()) is not None:
        path, mounts = f"{web.path}:{path}", [*mounts, *web.directories]
    try:
        with (
            RealNode(plane, programs, name="localhost", gpus=GPUS, mounts=mounts, path=path) as node,
            Installed(plane, name="sessions") as weir,
        ):
            weir.wait_ready()
            wait_for_queries(plane.api)
            for name in ("vision", "speech"):
                found.namespace(name)
                weir.create_queues(project(name, GPUS // 2, [name]))
            yield found
            node.check()
            for name in ("vision", "speech"):
                plane.api.delete(f"/apis/batch/v1/namespaces/{name}/jobs", grace_s=0)
            found.until(lambda: not found.pods("vision") + found.pods("speech"), "the pods to be gone")
    finally:
        plane.kill("kube-scheduler")
        found.empty()


@pytest.fixture(scope="module")
def person(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterPerson:
    """A person whose session `dev` runs."""
    kubeconfig = cluster.plane.kubeconfig_for("weir")
    found = ClusterPerson(tmp_path_factory.mktemp("person"), kubeconfig, "vision")
    said = found.ended_with(7, "shell", "dev", "--gpus", "1", *SMALL, text="exit 7\n")
    assert "queued vision/job-dev in vision: 1 pod, 1 GPU" in said
    assert "dev runs until `weir stop dev`" in said
    return found


def test_a_terminal_has_its_size_its_keys_and_its_exit_code(person: ClusterPerson) -> None:
    process, terminal = person.on_terminal(
        "sh", "-c", 'stty rows 31 cols 91; exec "$0" shell dev', _weir(person)
    )
    with ended(process):
        read_until(terminal, b"# ")
        os.write(terminal, b"stty size; tty\n")
        read_until(terminal, b"31 91", b"/dev/pts/")
        _set_size(terminal, 44, 123)
        process.send_signal(signal.SIGWINCH)  # it isn't the process's own terminal, whose kernel would
        os.write(terminal, b"until stty size | grep '44 123'; do sleep 0.1; done; echo is-$((40 + 2))\n")
        read_until(terminal, b"is-42")
        # The program says itself that it runs: a shell that has only started it would get the signal instead.
        os.write(terminal, b"sh -c 'echo go-$((1 + 1)); exec sleep 600'\n")
        read_until(terminal, b"go-2")
        os.write(terminal, b"\x03")
        read_until(terminal, b"# ")
        os.write(terminal, b"echo code-$?\n")
        read_until(terminal, b"code-130", b"# ")
        os.write(terminal, b"exit 9\n")
        assert process.wait(LIMIT_S) == 9


def test_a_command_has_pipes_and_the_devices_of_the_workload(person: ClusterPerson) -> None:
    done = person.weir(
        "exec", "dev", "--", "sh", "-c", "cat; echo $NVIDIA_VISIBLE_DEVICES; echo no >&2; exit 3", text="in\n"
    )
    assert done.returncode == 3
    assert done.stdout.startswith("in\nGPU-")
    assert done.stderr == "no\n"
    assert "the container has no program nothing" in person.ended_with(127, "exec", "dev", "--", "nothing")


def test_a_session_holds_no_token_of_the_cluster(person: ClusterPerson, cluster: Cluster) -> None:
    (pod,) = (each for each in cluster.pods("vision") if each["metadata"]["name"].startswith("dev-"))
    assert not pod["spec"].get("volumes")
    until(lambda: person.weir("describe", "dev").returncode == 0)  # Weir may hear of it later than the person
    said = person.ended_with(2, "exec", "dev", "--", "ls", "/var/run/secrets/kubernetes.io/serviceaccount")
    assert "No such file" in said


@NEEDS_SSH
def test_ssh_and_its_kin_reach_a_container_by_name(person: ClusterPerson, tmp_path: Path) -> None:
    assert person.ended_with(5, "ssh", "dev", "--", "exit 5") == "dev runs until `weir stop dev`\n"
    assert words_of(person.ssh("weir-dev", "echo $NVIDIA_VISIBLE_DEVICES $PATH"))[0].startswith("GPU-")
    key = person.home / ".local/state/weir/remote-sessions/weir-dev/client_key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    content = os.urandom(300_000)
    (tmp_path / "one").write_bytes(content)
    options = ("-F", str(person.config))
    done = person.run("scp", *options, str(tmp_path / "one"), "weir-dev:/tmp/two")
    assert done.returncode == 0, done.stderr
    done = person.run("sftp", *options, "-b", "-", "weir-dev", text=f"get /tmp/two {tmp_path}/three\n")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "three").read_bytes() == content
    assert "Host weir-dev\n  User root\n" in person.weir("ssh", "--print-config").stdout


@NEEDS_SSH
@NEEDS_RSYNC
def test_directories_are_synchronised(person: ClusterPerson, tmp_path: Path) -> None:
    person.ended_with(0, "ssh", "dev", "--", "true")
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_bytes(content := os.urandom(300_000))
    shell = ("rsync", "-a", "-e", f"ssh -F {person.config}")
    for source, target in (
        (f"{tmp_path}/from/", "weir-dev:/tmp/to/"),
        ("weir-dev:/tmp/to/", f"{tmp_path}/back/"),
    ):
        done = person.run(*shell, source, target)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "back" / "file").read_bytes() == content


@NEEDS_SSH
def test_ports_are_forwarded_both_ways(person: ClusterPerson) -> None:
    person.ended_with(0, "ssh", "dev", "--", "true")
    echo, local, there, proxy = _echo_server(), free_port(), free_port(), free_port()
    forwards = ["-R", f"127.0.0.1:{there}:127.0.0.1:{echo}", "-L", f"{local}:127.0.0.1:{there}"]
    words = ["-N", "-o", "ExitOnForwardFailure=yes", *forwards, "-D", f"127.0.0.1:{proxy}", "weir-dev"]
    with ended(person.begin_ssh(*words)):
        with connected(("127.0.0.1", local)) as stream:
            stream.sendall(b"through")
            assert received(stream, 7) == b"through"
        with connected(("127.0.0.1", proxy)) as stream:
            stream.sendall(b"\x05\x01\x00")
            assert received(stream, 2) == b"\x05\x00"
            stream.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + there.to_bytes(2, "big"))
            assert received(stream, 10)[1] == 0
            stream.sendall(b"socks")
            assert received(stream, 5) == b"socks"


@NEEDS_SSH
def test_the_steps_of_an_editor_that_installs_its_server(person: ClusterPerson) -> None:
    """A script comes by the standard input, puts a server up, and the editor reaches it by the SOCKS proxy."""
    person.ended_with(0, "ssh", "dev", "--", "true")
    place, proxy = "/tmp/editor", free_port()
    with ended(person.begin_ssh("-T", "-D", f"127.0.0.1:{proxy}", "weir-dev", "bash")) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        editor.stdin.write(EDITOR_SCRIPT.replace("PLACE", place).encode())
        said = read_until(editor.stdout.fileno(), b"==\n").decode()
        assert said.startswith("Linux\n")
        port = int(said.split("==")[1])
        with connected(("127.0.0.1", proxy)) as stream:
            stream.sendall(b"\x05\x01\x00")
            assert received(stream, 2) == b"\x05\x00"
            stream.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2, "big"))
            assert received(stream, 10)[1] == 0
            stream.sendall(b"GET /marker HTTP/1.0\r\n\r\n")
            answer = b""
            while part := stream.recv(4096):
                answer += part
        assert answer.endswith(b"here\n"), answer
    again = words_of(person.ssh("weir-dev", f"kill -0 $(cat {place}/pid) && echo stays"))
    assert again == ["stays"], "the server of an editor stays for its next connection"
    person.ssh("weir-dev", f"kill $(cat {place}/pid)")


@NEEDS_SSH
def test_another_account_than_the_containers_is_named(person: ClusterPerson) -> None:
    person.ended_with(0, "ssh", "dev", "--", "true")
    done = person.ssh("-l", "mia", "weir-dev", "true")
    assert done.returncode == 255
    assert "the container of dev doesn't run as mia" in done.stderr


def test_a_kernel_answers_through_the_api_server_also_after_its_restart(
    person: ClusterPerson, cluster: Cluster
) -> None:
    need_programs()
    with person.notebook("notes", *SMALL) as notebook:
        assert notebook.status() == 401, "a port isn't enough"
        notebook.open()
        assert notebook.browser.get(notebook.link).status_code == 401, "a link works once"
        notebook.browser.get(f"{notebook.path}lab")
        kernel = notebook.ask("POST", "api/kernels", json={})["id"]
        assert asyncio.run(_output(notebook, kernel, "x = 6; print(x * 7)")) == "42\n"
        text = "long" * 10_000
        assert asyncio.run(_output(notebook, kernel, f"print({text!r})")) == f"{text}\n"
        _refuses_other_pages(notebook)
        cluster.plane.restart("kube-apiserver")
        until(lambda: notebook.status() == 200)
        assert asyncio.run(_output(notebook, kernel, "print(x)")) == "6\n", "the same kernel"
        notebook.process.send_signal(signal.SIGINT)
        assert notebook.process.wait(LIMIT_S) == 0
    wait_for_queries(cluster.api)
    with person.notebook("notes") as again:
        again.open()
        assert [each["id"] for each in again.ask("GET", "api/kernels")] == [kernel]
        person.ended_with(0, "stop", "notes")
        assert again.process.wait(LIMIT_S) == 1
        assert again.process.stderr is not None
        assert "notes is over" in again.process.stderr.read()


def test_code_server_opens_a_folder(person: ClusterPerson) -> None:
    need_programs()
    with person.in_browser("code", "editor", "--cpu", "0.5", *SMALL[2:], "--directory", "/root") as editor:
        editor.open()
        page = editor.browser.get(editor.path, follow_redirects=True)
        assert page.status_code == 200
        assert page.url.params["folder"] == "/root"
        commit = re.search(r"stable-[0-9a-f]{40}", page.text)
        assert commit is not None, page.text
        script = f"{editor.path}{commit[0]}/static/out/vs/code/browser/workbench/workbench.js"
        assert len(editor.browser.get(script).content) > 1_000_000
        assert asyncio.run(handshake(editor, commit[0])) == "sign"
        person.ended_with(0, "stop", "editor")
        assert editor.process.wait(LIMIT_S) == 1


def _refuses_other_pages(notebook: Notebook) -> None:
    """Check what a page of another site, and another name of this machine, get with the cookie."""
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    ):
        assert notebook.browser.get(f"{notebook.path}api/status", headers=headers).status_code == 403, headers
    assert notebook.browser.get("/sessions/other/api/status").status_code == 404


async def _output(notebook: Notebook, kernel: str, code: str) -> str:
    """Return what a kernel prints when it runs code."""
    root = str(notebook.browser.base_url).rstrip("/")
    url = f"{root}{notebook.path}api/kernels/{kernel}/channels?session_id=test"
    headers = {"Cookie": notebook.cookies(), "Origin": root}
    async with (
        asyncio.timeout(LIMIT_S),
        aiohttp.ClientSession() as http,
        http.ws_connect(url, headers=headers) as stream,
    ):
        await stream.send_str(execution(code))
        async for message in stream:
            answer = json.loads(message.data)
            if answer["msg_type"] == "stream":
                return str(answer["content"]["text"])
    raise AssertionError("the stream ended")


def test_a_missing_program_and_a_missing_right_are_named(
    person: ClusterPerson, cluster: Cluster, tmp_path: Path
) -> None:
    words = ("--cpu", "0.1", "--image", IMAGE)
    said = person.ended_with(1, "jupyter", "none", *words)
    assert f"the image {IMAGE} has no jupyter-lab: add `RUN pip install jupyterlab`" in said
    assert "dev is no session of `weir jupyter`" in person.ended_with(2, "jupyter", "dev")
    assert "there is no workload nothing" in person.ended_with(2, "session", "pipe", "weir-nothing")
    other = ClusterPerson(tmp_path, cluster.plane.kubeconfig_for("reader", ["readers"]), "vision")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}
    for name in ("view", "weir-view"):
        cluster.api.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"readers-{name}"},
                "roleRef": {**role, "name": name},
                "subjects": [subject],
            }
        )
    until(lambda: other.weir("describe", "dev").returncode == 0)
    for entry in (("shell", "dev"), ("exec", "dev", "--", "true"), ("session", "pipe", "weir-dev")):
        assert "it needs the verb create on pods/exec" in other.ended_with(1, *entry)


def test_a_shell_says_who_took_its_gpus(person: ClusterPerson, cluster: Cluster) -> None:
    words = ("--gpus", "3", "--preemptible", *SMALL)
    process, terminal = person.on_terminal(_weir(person), "shell", "borrower", *words)
    with ended(process):
        read_until(terminal, b"# ")
        said = person.ended_with(0, "exec", "dev", "--", "true")
        assert not said
        owner = ClusterPerson(person.home, Path(person.environment["KUBECONFIG"]), "speech")
        owner.ended_with(0, "shell", "due", "--gpus", "2", *SMALL, text="exit\n")
        read_until(terminal, b"borrower left its GPUs", b"speech")
        assert process.wait(LIMIT_S) != 0


def _weir(person: ClusterPerson) -> str:
    """Return a program that is `weir` of this checkout."""
    path = person.home / "weir"
    if not path.exists():
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m weir "$@"\n')
        path.chmod(0o755)
    return str(path)


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _echo_server() -> int:
    """Return the port of a server that sends back what it gets, for as long as the tests run."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            stream, _ = listening.accept()
            with stream:
                while part := stream.recv(4096):
                    stream.sendall(part)

    threading.Thread(target=serve, daemon=True).start()
    port: int = listening.getsockname()[1]
    return port
