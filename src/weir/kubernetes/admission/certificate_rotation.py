"""Rotation of the webhooks' certificates: read from their Secret, renewed there, trusted, and then served.

The order keeps every call working. First the Secret is written, then the authority in the webhook
configurations. Only then is the new certificate served. A replica that loses a race for the
Secret uses what the winner wrote.
"""

import base64
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from structlog import get_logger

from weir.kubernetes.admission.certificates import Certificates, first, read, renewed, trusting, written
from weir.kubernetes.admission.webhook_configuration import OWN_PATHS
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import ApiError, ApiRefused, Conflict, NotFound
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.api.paths import path_of

EVERY_S, AGAIN_S = 600.0, 5.0
"""Interval of checks of the Secret, and the time until the next one after a failure."""
SERVICE_EVERY_S = 30.0
"""Interval with an APIService, which may be created later, or applied again without the CA bundle."""
_REGISTRATION = "admissionregistration.k8s.io/v1"
_CONFIGURATIONS = {
    "mutatingwebhookconfigurations": "mutate",
    "validatingwebhookconfigurations": "validate",
}
"""The configurations, and the first step of their webhooks' paths."""
_TRIES = 3
_LOG = get_logger(__name__)


class Secret(Struct):
    """A Secret."""

    metadata: Metadata
    data: dict[str, str] = {}


class ServiceReference(Struct):
    """The service of a webhook."""

    path: str = ""


class ServiceName(Struct):
    """The service of an APIService."""

    namespace: str = ""
    name: str = ""


class ClientConfig(Struct, rename="camel"):
    """Address and trusted authority of a webhook, as the API server uses them."""

    ca_bundle: str = ""
    service: ServiceReference | None = None
    url: str | None = None

    def change(self, bundle: str, path: str) -> dict[str, Any]:
        """Return the changes that give a webhook this bundle and this path."""
        change: dict[str, Any] = {}
        if self.ca_bundle != bundle:
            change["caBundle"] = bundle
        if self.service is not None and self.service.path != path:
            change["service"] = {"path": path}
        if self.url is not None and urlsplit(self.url).path != path:
            change["url"] = urlsplit(self.url)._replace(path=path).geturl()
        return change


class Webhook(Struct, rename="camel"):
    """Webhook of a configuration."""

    name: str
    client_config: ClientConfig


class WebhookConfiguration(Struct):
    """Webhooks the API server calls."""

    metadata: Metadata
    webhooks: list[Webhook] = []


class ApiServiceSpec(Struct, rename="camel"):
    """Trusted authority of an APIService, and the service it names."""

    ca_bundle: str = ""
    service: ServiceName | None = None


class ApiService(Struct):
    """An APIService, by which the API server forwards requests."""

    metadata: Metadata
    spec: ApiServiceSpec


class CertificateRotation:
    """Keeps a TLS context served with a certificate that the API server trusts."""

    def __init__(
        self,
        api: ApiClient,
        tls: SSLContext,
        *,
        namespace: str,
        secret: str,
        configurations: str,
        names: Sequence[str],
        api_service: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self.tls = tls
        self._secrets = path_of("v1", "secrets", namespace)
        self._secret = secret
        self._configurations = configurations
        self._service = ServiceName(namespace, configurations)
        self._api_service = api_service
        self._names = names
        self._now = now
        self._missing: list[str] = []
        self._service_trouble = ""
        self._held_last: Certificates | None = None
        self.served: bytes = b""
        """The certificate that is served; none before the first round."""

    @property
    def caller_key(self) -> str:
        """Secret at the end of the webhooks' paths; empty before the first round."""
        return "" if self._held_last is None else self._held_last.caller_key

    async def round(self) -> float:
        """Bring everything up to date; return the seconds until the next round."""
        try:
            certificates = await self._stored_certificates()
            missing = await self._make_known(certificates)
        except ApiError as error:
            _LOG.warning("webhook_certificates_not_renewed", why=str(error))
            return AGAIN_S
        self._held_last = certificates
        if certificates.certificate != self.served:
            self._serve(certificates)
        if missing and missing != self._missing:
            _LOG.warning("webhooks_not_configured", missing=missing, name=self._configurations)
        self._missing = missing
        if missing:
            return AGAIN_S
        return SERVICE_EVERY_S if self._api_service else EVERY_S

    async def _stored_certificates(self) -> Certificates:
        """Return the certificates of the Secret, after renewing those that are due."""
        path = f"{self._secrets}/{self._secret}"
        for left in reversed(range(_TRIES)):
            try:
                secret = await self._api.get(path, Secret)
            except NotFound:
                secret = Secret(Metadata(name=self._secret))
            certificates = read(secret.data)
            wanted = (
                self._first() if certificates is None else renewed(certificates, self._names, self._now())
            )
            if wanted is certificates:
                return wanted
            try:
                await self._write(secret, wanted)
            except Conflict:
                if not left:
                    raise
            else:
                return wanted
        raise AssertionError("the last try returns or raises")

    def _first(self) -> Certificates:
        """Make certificates if there are none: those of a deleted Secret stay trusted for a while."""
        made = first(self._names, self._now())
        return made if self._held_last is None else trusting(made, self._held_last.bundle, self._now())

    async def _write(self, secret: Secret, wanted: Certificates) -> None:
        metadata = {"name": self._secret}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "data": written(wanted)}
        if secret.metadata.resource_version:
            metadata["resourceVersion"] = secret.metadata.resource_version
            labels = {"metadata": {**metadata, "labels": secret.metadata.labels}}
            await self._api.put(f"{self._secrets}/{self._secret}", {**body, **labels}, Secret)
        else:
            await self._api.post(self._secrets, {**body, "metadata": metadata}, Secret)

    async def _make_known(self, certificates: Certificates) -> list[str]:
        """Make the API server trust the present and the next certificate; return missing configurations."""
        missing = []
        bundle = base64.b64encode(certificates.bundle).decode()
        for kind, step in _CONFIGURATIONS.items():
            path = path_of(_REGISTRATION, kind, name=self._configurations)
            try:
                configuration = await self._api.get(path, WebhookConfiguration)
            except NotFound:
                missing.append(kind)
                continue
            changes = {
                webhook.name: webhook.client_config.change(
                    bundle, f"/{OWN_PATHS.get(webhook.name, step)}/{certificates.caller_key}"
                )
                for webhook in configuration.webhooks
            }
            webhooks = [{"name": name, "clientConfig": change} for name, change in changes.items() if change]
            if webhooks:
                await self._api.patch(path, {"webhooks": webhooks}, Patch.STRATEGIC, WebhookConfiguration)
        if self._api_service:
            trouble = await self._make_known_to_aggregator(bundle)
            if trouble and trouble != self._service_trouble:
                _LOG.warning("api_service_not_configured", name=self._api_service, why=trouble)
            self._service_trouble = trouble
        return missing

    async def _make_known_to_aggregator(self, bundle: str) -> str:
        """Write the CA bundle into the APIService; return the cause of a failure.

        Without an APIService nothing is wrong: it is an option, and may come later. One that names another
        service is another installation's. Webhooks don't depend on it: a right that is missing costs the API
        alone.
        """
        path = path_of("apiregistration.k8s.io/v1", "apiservices", name=self._api_service)
        try:
            api_service = await self._api.get(path, ApiService)
            if api_service.spec.service == self._service and api_service.spec.ca_bundle != bundle:
                await self._api.patch(path, {"spec": {"caBundle": bundle}}, Patch.MERGE, ApiService)
        except NotFound:
            return ""
        except ApiRefused as error:
            return str(error)
        return ""

    def _serve(self, certificates: Certificates) -> None:
        """Serve the certificates from the next connection on.

        OpenSSL reads files alone, so there are some for a moment.
        """
        with tempfile.TemporaryDirectory(prefix="weir-") as directory:
            certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
            certificate.write_bytes(certificates.certificate)
            key.touch(mode=0o600)
            key.write_bytes(certificates.key)
            self.tls.load_cert_chain(certificate, key)
        self.served = certificates.certificate
