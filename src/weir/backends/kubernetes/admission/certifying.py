"""The certificates as all replicas have them: read from their Secret, renewed there, made known, served.

The order keeps every call working: the Secret first, then the API server is told whom to trust, and only
then is the new certificate served. Whoever loses a race for the Secret takes what the winner wrote.
"""

import base64
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext
from typing import Any

from msgspec import Struct
from structlog import get_logger

from weir.backends.kubernetes.admission.certificates import Certificates, first, read, renewed, written
from weir.backends.kubernetes.api.answers import ApiError, Conflict, NotFound
from weir.backends.kubernetes.api.connection import Connection, Patch
from weir.backends.kubernetes.api.objects import Metadata
from weir.backends.kubernetes.api.paths import path_of

EVERY_S, AGAIN_S = 600.0, 5.0
"""How often the Secret is looked at, and how soon after something went wrong."""
_REGISTRATION = "admissionregistration.k8s.io/v1"
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_TRIES = 3
_LOG = get_logger(__name__)


class Secret(Struct):
    """A Secret."""

    metadata: Metadata
    data: dict[str, str] = {}


class ClientConfig(Struct, rename="camel"):
    """How the API server reaches a webhook."""

    ca_bundle: str = ""


class Webhook(Struct, rename="camel"):
    """One webhook of a configuration."""

    name: str
    client_config: ClientConfig


class WebhookConfiguration(Struct):
    """Webhooks the API server calls."""

    metadata: Metadata
    webhooks: list[Webhook] = []


class Certifying:
    """Keeps a TLS context served with a certificate that the API server trusts."""

    def __init__(
        self,
        api: Connection,
        tls: SSLContext,
        *,
        namespace: str,
        secret: str,
        configurations: str,
        names: Sequence[str],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self.tls = tls
        self._secrets = path_of("v1", "secrets", namespace)
        self._secret = secret
        self._configurations = configurations
        self._names = names
        self._now = now
        self._missing: list[str] = []
        self.served: bytes = b""
        """The certificate that is served; none before the first round."""

    async def round(self) -> float:
        """Bring everything up to date; after how many seconds to look again."""
        try:
            held = await self._held()
            missing = await self._make_known(held)
        except ApiError as error:
            _LOG.warning("webhook_certificates_not_renewed", why=str(error))
            return AGAIN_S
        if held.certificate != self.served:
            self._serve(held)
        if missing and missing != self._missing:
            _LOG.warning("webhooks_not_configured", missing=missing, name=self._configurations)
        self._missing = missing
        return AGAIN_S if missing else EVERY_S

    async def _held(self) -> Certificates:
        """What the Secret holds, after what was due is renewed in it."""
        path = f"{self._secrets}/{self._secret}"
        for left in reversed(range(_TRIES)):
            try:
                found = await self._api.get(path, Secret)
            except NotFound:
                found = Secret(Metadata(name=self._secret))
            held = read(found.data)
            wanted = (
                first(self._names, self._now()) if held is None else renewed(held, self._names, self._now())
            )
            if wanted is held:
                return wanted
            try:
                await self._write(found, wanted)
            except Conflict:
                if not left:
                    raise
            else:
                return wanted
        raise AssertionError("the last try returns or raises")

    async def _write(self, found: Secret, wanted: Certificates) -> None:
        metadata = {"name": self._secret}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "data": written(wanted)}
        if found.metadata.resource_version:
            metadata["resourceVersion"] = found.metadata.resource_version
            labels = {"metadata": {**metadata, "labels": found.metadata.labels}}
            await self._api.put(f"{self._secrets}/{self._secret}", {**body, **labels}, Secret)
        else:
            await self._api.post(self._secrets, {**body, "metadata": metadata}, Secret)

    async def _make_known(self, held: Certificates) -> list[str]:
        """Have the API server trust what will be served and what is; the configurations that aren't there."""
        missing = []
        bundle = base64.b64encode(held.bundle).decode()
        for kind in _CONFIGURATIONS:
            path = path_of(_REGISTRATION, kind, name=self._configurations)
            try:
                found = await self._api.get(path, WebhookConfiguration)
            except NotFound:
                missing.append(kind)
                continue
            stale = [each.name for each in found.webhooks if each.client_config.ca_bundle != bundle]
            if stale:
                told = [{"name": name, "clientConfig": {"caBundle": bundle}} for name in stale]
                await self._api.patch(path, {"webhooks": told}, Patch.STRATEGIC, WebhookConfiguration)
        return missing

    def _serve(self, held: Certificates) -> None:
        """From the next connection on. OpenSSL reads files alone, so there are some for a moment."""
        with tempfile.TemporaryDirectory(prefix="weir-") as directory:
            certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
            certificate.write_bytes(held.certificate)
            key.touch(mode=0o600)
            key.write_bytes(held.key)
            self.tls.load_cert_chain(certificate, key)
        self.served = held.certificate
