"""A person with a kubeconfig and OpenSSH, and a real node on which their sessions run."""

import asyncio
import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
from tests.e2e.ssh_session import LIMIT_S, PersonAtHome, ended
from tools.node.image import MACHINE_IMAGE

MOUNTS = sorted({"/usr", str(Path(sys.base_prefix).resolve())})
SMALL = ("--cpu", "0.1", "--image", MACHINE_IMAGE)
_LINK = re.compile(r"http://(\S+?):(\d+)(/sessions/\S+)")


class ClusterPerson(PersonAtHome):
    """Works with a kubeconfig on a project."""

    def __init__(self, home: Path, kubeconfig: Path, project: str) -> None:
        super().__init__(home, {"WEIR_URL": "kube:", "KUBECONFIG": str(kubeconfig), "WEIR_PROJECT": project})

    def ended_with(self, code: int, *words: str, text: str = "") -> str:
        """Run `weir` until it ends with this code; return what it says."""
        done = self.weir(*words, text=text)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stderr

    def notebook(self, *words: str) -> AbstractContextManager["Notebook"]:
        """Run `weir jupyter`; the context is a browser at its link."""
        return self.in_browser("jupyter", *words)

    @contextmanager
    def in_browser(self, kind: str, *words: str) -> Iterator["Notebook"]:
        """Run `weir jupyter` or `weir code`, and yield a browser at its link."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "weir", kind, *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with ended(process), process.stderr:
            found = _LINK.match(process.stdout.readline())
            assert found is not None, process.stderr.read()
            with httpx.Client(base_url=f"http://{found[1]}:{found[2]}", timeout=LIMIT_S) as browser:
                yield Notebook(process, browser, found[3])


class Notebook:
    """A browser at the page of a notebook. `link` opens it."""

    def __init__(self, process: subprocess.Popen[str], browser: httpx.Client, link: str) -> None:
        self.process = process
        self.browser = browser
        self.link = link
        self.path = link.partition("?")[0]

    def open(self) -> None:
        answer = self.browser.get(self.link)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == self.path

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Return an answer of Jupyter's own interface; a token of its page comes with changes."""
        proof = {"X-XSRFToken": self.browser.cookies.get("_xsrf") or ""}
        answer = self.browser.request(method, f"{self.path}{path}", headers=proof, **more)
        assert answer.status_code < 300, (answer.status_code, answer.text)
        return json.loads(answer.text)

    def status(self) -> int:
        """Return the status of an answer, whatever it is."""
        return self.browser.get(f"{self.path}api/status").status_code

    def cookies(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.browser.cookies.items())


def execution(code: str) -> str:
    """Return the message that lets a kernel run code."""
    header = {"msg_id": "one", "username": "", "session": "test", "msg_type": "execute_request"}
    content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}}
    return json.dumps(
        {
            "header": {**header, "version": "5.3"},
            "parent_header": {},
            "metadata": {},
            "content": {**content, "allow_stdin": False},
            "channel": "shell",
            "buffers": [],
        }
    )


async def handshake(editor: Notebook, commit: str) -> str:
    """Begin the protocol of VS Code on a WebSocket; return the type of the server's first message."""
    root = str(editor.browser.base_url).rstrip("/")
    headers = {"Cookie": editor.cookies(), "Origin": root}
    token = "11111111-2222-3333-4444-555555555555"
    query = f"reconnectionToken={token}&reconnection=false&skipWebSocketFrames=false"
    message = json.dumps({"type": "auth", "auth": "00000000000000000000", "data": "x"}).encode()
    async with asyncio.timeout(LIMIT_S), aiohttp.ClientSession() as http:
        stream = await http.ws_connect(f"{root}{editor.path}{commit}?{query}", headers=headers)
        control = 2  # kind of the message; its number and the number that it confirms are 0
        await stream.send_bytes(struct.pack(">BIII", control, 0, 0, len(message)) + message)
        answer = await stream.receive_bytes()
    return str(json.loads(answer[13:])["type"])  # without a farewell, to which this server gives no answer
