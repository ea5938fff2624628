"""A pool that other machines reach: `weir up` with a certificate, in front of a real provider."""

import datetime as dt
import ipaddress
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.unit.local.server.server_process import SHARED_ACCOUNT
from tools.controlplane.ports import free_port

from .provider import CLIENT, Provider, client

LIMIT_S = 120.0
NAME = "localhost"


class Authority:
    """A certificate authority, and the certificates that it makes for this machine."""

    def __init__(self, folder: Path, names: Sequence[str] = (NAME,)) -> None:
        self._names = names
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
        self.file = folder / "authority.pem"
        made = self._certificate(self._name, self._key.public_key(), is_authority=True)
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def certify(self, certificate: Path, key: Path, left_s: float = 3600.0) -> int:
        """Write a certificate of this machine and its key; return its number."""
        own = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
        made = self._certificate(name, own.public_key(), is_authority=False, left_s=left_s)
        key.touch(0o600)
        key.write_bytes(
            own.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return made.serial_number

    def _certificate(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool, left_s: float = 3600.0
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = [*(x509.DNSName(each) for each in self._names), address]
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(seconds=left_s))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )


class RemotePool:
    """The server, its administrator, and people who come from elsewhere."""

    def __init__(
        self, folder: Path, provider: Provider, sessions_domain: str | None = None, *options: str
    ) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.provider = provider
        own = [] if sessions_domain is None else [f"*.{sessions_domain}"]
        self.authority = Authority(folder, [NAME, *own])
        self.options = [*options]
        if sessions_domain is not None:
            self.options += ["--sessions-domain", sessions_domain]
        self.certificate, self.key = folder / "tls.pem", folder / "tls.key"
        self.authority.certify(self.certificate, self.key)
        self.port = free_port()
        self.url = f"https://{NAME}:{self.port}"
        self.context = ssl.create_default_context(cafile=str(self.authority.file))
        provider.ask("clients", clients=[client(redirect=f"{self.url}/api/v1/dashboard/oidc/callback")])
        self.log = folder / "server.log"
        self.begin()

    def begin(self) -> None:
        words = [
            *("--listen", f"127.0.0.1:{self.port}", "--public-url", self.url),
            *("--tls-certificate", str(self.certificate), "--tls-key", str(self.key)),
            *("--oidc-issuer", self.provider.issuer, "--oidc-client-id", CLIENT),
            *("--oidc-admin-group", "pool-admins", "--shared-account", str(SHARED_ACCOUNT["shared_account"])),
            *("--virtual-gpus", "4", "--port", "0", "--log-level", "debug", *self.options),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "weir", "up", *words],
                env={**os.environ, "WEIR_HOME": str(self.home)},
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + LIMIT_S
        while True:
            place = self.home / "server.json"
            if place.exists() and json.loads(place.read_text())["pid"] == self.process.pid:
                self.local_url = json.loads(place.read_text())["url"]
                break
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until
            time.sleep(0.02)
        self.token = (self.home / "token").read_text().strip()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)

    def asks(self, token: str | None = None) -> httpx.Client:
        """Return a client of the HTTPS listener."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=self.url, verify=self.context, trust_env=False, headers=headers, timeout=LIMIT_S
        )

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        with self.asks(token) as opened:
            return opened.get(path)

    def administer(self, method: str, path: str, body: object = None) -> Any:
        with httpx.Client(base_url=self.local_url, trust_env=False, timeout=LIMIT_S) as opened:
            answer = opened.request(
                method, path, json=body, headers={"Authorization": f"Bearer {self.token}"}
            )
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def audited(self, **wanted: object) -> list[Mapping[str, Any]]:
        """Return the lines of the audit log with these values, newest first."""
        lines = self.administer("GET", "/api/v1/audit?limit=1000")["items"]
        return [line for line in lines if all(line.get(key) == value for key, value in wanted.items())]

    def weir(self, *words: str, state: Path | None = None, token: str | None = None) -> subprocess.Popen[str]:
        """Begin a command of a person on another machine."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
        where = {
            "WEIR_URL": self.url,
            "SSL_CERT_FILE": str(self.authority.file),
            "XDG_STATE_HOME": str(state or self.folder / "state"),
            **({} if token is None else {"WEIR_TOKEN": token}),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "weir", *words],
            env={**plain, **where},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def remote_pool(
    folder: Path, provider: Provider, sessions_domain: str | None = None, *options: str
) -> Iterator[RemotePool]:
    """Serve a pool to other machines until the block ends."""
    pool = RemotePool(folder, provider, sessions_domain, *options)
    try:
        yield pool
    finally:
        pool.end()
