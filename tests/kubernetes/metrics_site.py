"""External metrics as an aggregated API, such as KEDA or a Prometheus adapter serves them to real autoscalers."""

import base64
import json
import re
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tools.controlplane.cluster import Cluster
from tools.controlplane.queries import wait_for_queries, withdraw

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API = f"/apis/{GROUP}/{VERSION}"
_VALUE = re.compile(rf"{API}/namespaces/([^/?]+)/([^/?]+)")


class ExternalMetrics:
    """Values of metrics by namespace and name, and how often each was asked for."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], int] = {}
        self.asked: Counter[tuple[str, str]] = Counter()

    def answer(self, path: str) -> dict[str, Any] | None:
        """Return the answer to a request; None if there is none."""
        if path.partition("?")[0] == API:
            one = {
                "name": "requests",
                "namespaced": True,
                "kind": "ExternalMetricValueList",
                "verbs": ["get"],
            }
            return {
                "apiVersion": "v1",
                "kind": "APIResourceList",
                "groupVersion": f"{GROUP}/{VERSION}",
                "resources": [one],
            }
        found = _VALUE.match(path)
        value = None if found is None else self.values.get((found[1], found[2]))
        if found is None or value is None:
            return None
        self.asked[found[1], found[2]] += 1
        item = {"metricName": found[2], "timestamp": "2026-01-01T00:00:00Z", "value": str(value)}
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "ExternalMetricValueList",
            "metadata": {},
            "items": [item],
        }


@contextmanager
def external_metrics(cluster: Cluster) -> Iterator[ExternalMetrics]:
    """Serve metrics behind the API server of a cluster."""
    metrics, namespace = ExternalMetrics(), cluster.namespace()
    server = _server(metrics)
    pair = cluster.plane.authority.server("metrics", [f"metrics.{namespace}.svc"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    authority = base64.b64encode(cluster.plane.authority.certificate.read_bytes()).decode()
    try:
        cluster.api.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "metrics", "namespace": namespace},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": f"{VERSION}.{GROUP}"},
                "spec": {
                    "group": GROUP,
                    "version": VERSION,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "caBundle": authority,
                    "service": {"name": "metrics", "namespace": namespace, "port": server.server_port},
                },
            },
        )
        wait_for_queries(cluster.api, API)
        yield metrics
    finally:
        withdraw(cluster.api, VERSION, GROUP)
        server.shutdown()
        thread.join()
        server.server_close()


def _server(metrics: ExternalMetrics) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = metrics.answer(self.path)
            body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "code": 404}).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: Any) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server
