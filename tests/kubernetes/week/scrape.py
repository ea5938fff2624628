"""The metrics of the instance that leads, as Prometheus reads them."""

import base64
import http.client
import socket
import ssl

from prometheus_client.parser import text_string_to_metric_families
from tests.kubernetes.week.invariants import Metrics
from tests.kubernetes.week.replicas import Replicas
from tools.controlplane.api import Api, ApiError

READER = "week-metrics"
_RBAC = "rbac.authorization.k8s.io"


class Scrape:
    """Reads /metrics with the token of an account that may."""

    def __init__(self, api: Api, replicas: Replicas) -> None:
        self._replicas = replicas
        namespace = replicas.installed.namespace
        account = {"kind": "ServiceAccount", "name": READER, "namespace": namespace}
        metadata = {"name": READER}
        api.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": namespace}},
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "weir-metrics"},
                "subjects": [account],
            },
        )
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{READER}/token"
        self._token = str(api.post(path, {"spec": {"expirationSeconds": 36000}})["status"]["token"])
        self._api = api

    def read(self) -> Metrics:
        """Return the leader's samples; nothing if none leads now."""
        for each in self._replicas.running:
            try:
                found = self._samples(each.port)
            except (OSError, ApiError, KeyError, http.client.HTTPException):
                continue  # it is starting
            if found.get(("weir_leading", ())) == 1.0:
                return found
        return {}

    def _samples(self, port: int) -> Metrics:
        namespace = self._replicas.installed.namespace
        secret = self._api.get(f"/api/v1/namespaces/{namespace}/secrets/weir-webhook")
        tls = ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20)
        plain = socket.create_connection(("127.0.0.1", port), timeout=20)
        try:
            connection.sock = tls.wrap_socket(plain, server_hostname=f"weir.{namespace}.svc")
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            plain.close()
            connection.close()
        if answer.status != http.client.OK:
            return {}
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
