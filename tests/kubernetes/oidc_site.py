"""The dashboard in a cluster: a process of it, an API server and an identity provider that know each other."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx
from tests.kubernetes.dashboard_site import WITHIN_S, until
from tests.oidc.page import Page
from tests.oidc.pool import NAME, Authority
from tests.oidc.provider import CLIENT, Provider, Providers, client
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port

LIFETIME_S = 30
"""Lifetime of the provider's ID tokens."""


class TlsProvider:
    """An identity provider with a certificate, as an API server wants it."""

    def __init__(self, providers: Providers, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.authority = Authority(folder)
        self.certificate, self.key = folder / "tls.pem", folder / "tls.key"
        self.authority.certify(self.certificate, self.key)
        tls = {"cert": self.certificate.read_text(), "key": self.key.read_text()}
        self.provider: Provider = providers.start(tls=tls, lifetime_s=LIFETIME_S)

    def server_options(self, release: str) -> list[str]:
        """Return the options of an API server of a release that takes the provider's tokens."""
        claims = {"claim": "preferred_username", "prefix": "oidc:"}
        authority = self.authority.file.read_text()
        issuer = {"url": self.provider.issuer, "audiences": [CLIENT], "certificateAuthority": authority}
        mappings = {"username": claims, "groups": {"claim": "groups", "prefix": "oidc:"}}
        configuration = {
            "apiVersion": f"apiserver.config.k8s.io/{'v1' if release >= '1.34' else 'v1beta1'}",
            "kind": "AuthenticationConfiguration",
            "jwt": [{"issuer": issuer, "claimMappings": mappings}],
        }
        file = self.certificate.with_name("authentication.yaml")
        file.write_text(json.dumps(configuration))  # JSON is YAML
        return [f"--authentication-config={file}"]


class TcpRelay:
    """A relay of connections to an API server, which can be cut; TLS passes through."""

    def __init__(self, url: str) -> None:
        _, _, port = url.rpartition(":")
        self._target = ("127.0.0.1", int(port))
        self._is_cut = False
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # wakes the thread that waits for connections
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """End all connections, and new ones at once."""
        self._is_cut = True
        for each in [*self._open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def heal(self) -> None:
        """Take connections again."""
        self._is_cut = False

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


class DashboardServer:
    """`weir kube dashboard-server` as a process."""

    def __init__(
        self,
        plane: ControlPlane,
        at: TlsProvider,
        folder: Path,
        namespace: str,
        *,
        client_id: str = CLIENT,
        api_server: str | None = None,
        trusted_proxies: str = "",
    ) -> None:
        folder.mkdir()
        self.port = free_port()
        self.url = f"https://{NAME}:{self.port}"
        self.context = ssl.create_default_context(cafile=str(at.authority.file))
        redirect = f"{self.url}/api/v1/dashboard/oidc/callback"
        at.provider.ask("clients", clients=[client(client_id, redirect)])
        words = [
            *("--public-url", self.url, "--host", "127.0.0.1", "--port", str(self.port)),
            *("--tls-certificate", str(at.certificate), "--tls-key", str(at.key)),
            *("--oidc-issuer", at.provider.issuer, "--oidc-client-id", client_id),
            *("--api-server", api_server or plane.url, "--api-authority", str(plane.authority.certificate)),
            *("--log-level", "debug", "--trusted-proxies", trusted_proxies),
        ]
        self.log = folder / "dashboard.log"
        env = {
            **os.environ,
            "SSL_CERT_FILE": str(at.authority.file),
            "WEIR_NAMESPACE": namespace,
            "NO_PROXY": NAME,
        }
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "weir", "kube", "dashboard-server", *words]
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        until(self._serves, "the dashboard to serve")

    def _serves(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            with self.asks() as opened:
                return opened.get("/healthz").text == "ok\n"
        except httpx.TransportError:
            return False

    def asks(self) -> httpx.Client:
        """Return a client of the dashboard."""
        return httpx.Client(base_url=self.url, verify=self.context, trust_env=False, timeout=WITHIN_S)

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(WITHIN_S) == 0, self.log.read_text()
        finally:
            self.process.kill()
            self.process.wait()

    @contextmanager
    def signed_in(self, account: str) -> Iterator["Person"]:
        """Yield a person who has signed in at the provider."""
        page = Page(self)
        with page.opened:
            answer = page.sign_in(account)
            assert answer.status_code == 201, answer.text
            yield Person(page, answer.json())


class Person:
    """A person with a session."""

    def __init__(self, page: Page, said: dict[str, Any]) -> None:
        self.page = page
        self.client = page.opened
        self.said = said

    def choose(self, namespace: str | None) -> httpx.Response:
        return self.client.put("/api/v1/dashboard/namespace", json={"namespace": namespace})

    def ask(self, method: str, path: str, **rest: Any) -> httpx.Response:
        return self.client.request(method, f"/api/v1/{path}", **rest)

    def names(self) -> set[str]:
        answer = self.ask("GET", "workloads?all=true&limit=1000")
        assert answer.status_code == 200, answer.text
        return {row["name"] for row in answer.json()["items"]}
