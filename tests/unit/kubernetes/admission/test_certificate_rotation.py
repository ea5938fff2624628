"""The authority in the APIService: written again after others reset it, and no reason to hold up webhooks."""

import base64
from typing import Any

import msgspec
import pytest

from weir.kubernetes.admission.certificate_rotation import (
    EVERY_S,
    SERVICE_EVERY_S,
    CertificateRotation,
)
from weir.kubernetes.admission.webhook_server import tls_context
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused, NotFound

SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1.query.weir.dev"
HOOKS = "/apis/admissionregistration.k8s.io/v1"


class Objects(ApiClient):
    """An API server that keeps the objects of an installation."""

    def __init__(self, service: dict[str, Any] | None) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            f"{HOOKS}/{kind}webhookconfigurations/weir": {"metadata": {"name": "weir"}}
            for kind in ("mutating", "validating")
        }
        if service is not None:
            self.objects[SERVICE] = {"metadata": {"name": "v1"}, "spec": {"service": service}}
        self.refuses = False

    async def get(self, path: str, of: Any, **_: Any) -> Any:
        if path not in self.objects:
            raise NotFound(404, "NotFound", "no such object")
        return msgspec.convert(self.objects[path], of)

    async def post(self, path: str, body: Any, of: Any, **_: Any) -> Any:
        self.objects[f"{path}/{body['metadata']['name']}"] = body
        return msgspec.convert(body, of)

    async def patch(self, path: str, body: Any, *_: Any, **__: Any) -> Any:
        if self.refuses:
            raise ApiRefused(403, "Forbidden", "no right")
        self.objects[path]["spec"] |= body["spec"]

    @property
    def bundle(self) -> str:
        return str(self.objects[SERVICE]["spec"].get("caBundle", ""))


def rotation(api: Objects, api_service: str = "v1.query.weir.dev") -> CertificateRotation:
    return CertificateRotation(
        api,
        tls_context(),
        namespace="home",
        secret="weir-webhook",
        configurations="weir",
        names=["127.0.0.1"],
        api_service=api_service,
    )


async def test_an_authority_that_others_reset_is_written_again_soon() -> None:
    api = Objects({"namespace": "home", "name": "weir"})
    found = rotation(api)
    for _ in range(2):
        assert await found.round() == SERVICE_EVERY_S
        assert base64.b64decode(api.bundle).startswith(b"-----BEGIN CERTIFICATE-----")
        api.objects[SERVICE]["spec"].pop("caBundle")  # a tool that applies objects from Git does


@pytest.mark.parametrize("service", [None, {"namespace": "other", "name": "weir"}])
async def test_without_an_api_service_of_its_own_nothing_is_wrong(service: dict[str, Any] | None) -> None:
    api = Objects(service)
    found = rotation(api)
    assert await found.round() == SERVICE_EVERY_S
    assert found.served
    assert service is None or api.bundle == ""
    assert await rotation(api, "").round() == EVERY_S


async def test_a_missing_right_costs_the_api_alone() -> None:
    api = Objects({"namespace": "home", "name": "weir"})
    api.refuses = True
    found = rotation(api)
    assert await found.round() == SERVICE_EVERY_S
    assert found.served
    assert api.bundle == ""
