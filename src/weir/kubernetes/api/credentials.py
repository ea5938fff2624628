"""Address of the API server, and Weir's credentials for it.

The two ways of the field: a kubeconfig, and the service account of a pod. The official package reads
kubeconfigs with more than a token (client certificates, plug-ins that are executed). Tokens change while Weir
runs: both look again every minute, and at once when the server refuses one. None of it ever shows in a repr,
a log or an error.
"""

import asyncio
import importlib
import os
import ssl
import time
from pathlib import Path
from typing import Any, Protocol

from weir.kubernetes.api.plain_kubeconfig import PlainKubeconfig, read_plain

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOOK_AGAIN_S = 60.0
NOT_VERIFIED = (
    "the kubeconfig has insecure-skip-tls-verify, so anyone on the way to the API server can take the token: "
    "write certificate-authority-data instead"
)


class NoCredentials(Exception):
    """The API server or the user to connect as is unknown; the sentence names the remedy."""


class Credentials(Protocol):
    """A server and credentials for it."""

    server: str  # its URL, without a slash at the end
    server_name: str | None  # name in its certificate, if that isn't the URL's host
    proxy: str | None
    namespace: str  # the default namespace
    is_verified: bool  # False: the server's certificate isn't checked

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, always the same object; None for plain HTTP."""
        ...

    async def authorization(self, *, refused: bool = False) -> str:
        """Return the `Authorization` header, or "". `refused`: the server refused the last one."""
        ...


def server_of_pod() -> str:
    """Return the URL of the API server of the pod that this runs in; empty outside of a cluster."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://{f'[{host}]' if ':' in host else host}:{port}" if host else ""


class ServiceAccount:
    """Reads the address, the authority and the token of the pod's own service account."""

    def __init__(self, directory: Path = SERVICE_ACCOUNT) -> None:
        server = server_of_pod()
        if not server or not (directory / "token").exists():
            raise NoCredentials(
                "This isn't a pod with a service account: give a kubeconfig, in $KUBECONFIG or by its path."
            )
        self.server = server
        self.server_name: str | None = None
        self.proxy: str | None = None
        self.is_verified = True
        self.namespace = (directory / "namespace").read_text().strip()
        self._directory = directory
        self._authorization = ""
        self._read_at_s = -LOOK_AGAIN_S
        self._authorities = ""
        self._tls = strict_context()
        self._read()

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context; None for plain HTTP."""
        return self._tls

    async def authorization(self, *, refused: bool = False) -> str:
        """Return the header with the token of the file, which is replaced long before it expires."""
        if refused or time.monotonic() - self._read_at_s > LOOK_AGAIN_S:
            self._read()
        return self._authorization

    def _read(self) -> None:
        self._read_at_s = time.monotonic()
        self._authorization = "Bearer " + (self._directory / "token").read_text().strip()
        authorities = (self._directory / "ca.crt").read_text()
        if authorities != self._authorities:
            self._tls.load_verify_locations(cadata=authorities)
            self._authorities = authorities


class Kubeconfig:
    """A context of a kubeconfig: `$KUBECONFIG` or `~/.kube/config` if none is given."""

    def __init__(self, path: Path | None = None, context: str | None = None) -> None:
        self._place = str(path or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())
        self._context = context
        self._plain: PlainKubeconfig | None = None
        self._kube_config: Any
        self._configuration: Any  # of the official package, as the former; None while it isn't needed
        self._kube_config = self._configuration = None
        self._looked_at_s = time.monotonic()
        self._authorization = ""
        try:
            self._load()
            self.namespace = self._namespace() if self._plain is None else self._plain.namespace
        except Exception as error:  # noqa: BLE001 - it raises whatever it stumbles over
            raise NoCredentials(f"The kubeconfig {self._place} can't be used: {_sentence(error)}") from None
        plain, package = self._plain, self._configuration
        self.server = str(package.host).rstrip("/") if plain is None else plain.server
        self.server_name: str | None = getattr(package, "tls_server_name", None)
        self.proxy: str | None = getattr(package, "proxy", None)
        self.is_verified = bool(getattr(package, "verify_ssl", True))
        self._tls = None if self.server.startswith("http:") else self._make_tls()

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for plain HTTP."""
        return self._tls

    async def authorization(self, *, refused: bool = False) -> str:
        """Return the token, renewed by the package where needed."""
        if refused or time.monotonic() - self._looked_at_s > LOOK_AGAIN_S:
            self._looked_at_s = time.monotonic()
            await asyncio.to_thread(self._look_again, refused=refused)
        return self._authorization

    def _load(self) -> None:
        self._looked_at_s = time.monotonic()
        self._plain = read_plain(self._place, self._context)
        if self._plain is None:
            if self._configuration is None:
                from kubernetes.client import Configuration

                self._configuration = Configuration()
                self._kube_config = importlib.import_module("kubernetes.config.kube_config")  # has no types
            load = self._kube_config.load_kube_config
            load(self._place, self._context, self._configuration, persist_config=False)
        self._authorization = self._token()

    def _look_again(self, *, refused: bool) -> None:
        try:
            if refused:
                self._load()  # the package renews by the clock only, and never a token in a file
            else:
                self._authorization = self._token()
            if self._tls is not None and self._plain is None and self._configuration.cert_file:
                # plug-ins hand out certificates too
                self._tls.load_cert_chain(self._configuration.cert_file, self._configuration.key_file)
        except Exception as error:  # noqa: BLE001 - it raises whatever it stumbles over
            raise NoCredentials(f"The credentials can't be renewed: {_sentence(error)}") from None

    def _token(self) -> str:
        if self._plain is not None:
            return self._plain.authorization
        return str(self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or "")

    def _namespace(self) -> str:
        contexts, active = self._kube_config.list_kube_config_contexts(self._place)
        name = self._context or active["name"]
        chosen: dict[str, Any] = next(entry["context"] for entry in contexts if entry["name"] == name)
        return str(chosen.get("namespace") or "default")

    def _make_tls(self) -> ssl.SSLContext:
        context = strict_context()
        if self._plain is not None:
            context.load_verify_locations(cadata=self._plain.authority)
            return context
        if not self._configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self._configuration.ssl_ca_cert:
            context.load_verify_locations(self._configuration.ssl_ca_cert)
        else:
            context.load_default_certs()
        if self._configuration.cert_file:
            context.load_cert_chain(self._configuration.cert_file, self._configuration.key_file)
        return context


def strict_context() -> ssl.SSLContext:
    """Return a context for API servers.

    It is strict about the form of certificates at first; `connection_pool.py` has the rest.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def _sentence(error: Exception) -> str:
    return (str(error) or type(error).__name__).rstrip(".") + "."
