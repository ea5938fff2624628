"""Port of a scheduler in a cluster: webhooks, health and metrics, on every replica.

It watches departments, projects and topologies itself: admission answers on every replica, while only the
leader keeps the state of the cluster.
"""

import asyncio
import errno
import ipaddress
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from structlog import get_logger

from weir.kubernetes.admission.certificate_rotation import CertificateRotation
from weir.kubernetes.admission.claiming_pods import ClaimedClasses
from weir.kubernetes.admission.class_resources import ClassResources
from weir.kubernetes.admission.fresh_quota_tree import FreshQuotaTree
from weir.kubernetes.admission.node_tokens import NodeTokens
from weir.kubernetes.admission.owner_index import OwnerIndex
from weir.kubernetes.admission.reviews import PodRules, QuotaTree
from weir.kubernetes.admission.token_review import TokenReviewer
from weir.kubernetes.admission.webhook_server import WebhookServices, application, serve, tls_context
from weir.kubernetes.api.changes import Change, keep
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.objects import KubePod, Namespace
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector
from weir.kubernetes.api.resource_objects import RESOURCE_API, DeviceClass
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.crd.queue_tree import QueueObject
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.crd.without_project import IGNORE, WithoutProject
from weir.kubernetes.process.server.node_report_route import NodeReportRoute
from weir.kubernetes.process.server.query_service import QueryService
from weir.kubernetes.query.aggregation.discovery import API_SERVICE
from weir.kubernetes.query.aggregation.front_proxy import is_issued_by
from weir.kubernetes.translate.annotations import Annotations
from weir.kubernetes.translate.claim_constraints import ClaimConstraints
from weir.kubernetes.translate.device_resources import CLASS_PREFIX, DeviceResources
from weir.kubernetes.translate.requests import parse_request
from weir.kubernetes.usage.node_reports import NodeReports
from weir.kubernetes.usage.node_shares import NodeShares

DEFAULT_PORT = 9443
_QUEUES = ("departments", "projects", "topologies")
_LOG = get_logger(__name__)


class CannotListen(Exception):
    """The port is not available; the sentence names the remedy."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Address to listen at, and names to be reached by."""

    service: str  # name of its Service and its webhook configurations
    namespace: str
    host: str | None = None  # None: all addresses
    port: int = DEFAULT_PORT
    client_authorities: Path | None = None  # CA certificates that sign callers' certificates

    @property
    def secret(self) -> str:
        """Name of the Secret with its certificates."""
        return f"{self.service}-webhook"

    @property
    def names(self) -> list[str]:
        """Host names by which clients connect."""
        within = f"{self.service}.{self.namespace}"
        names = [f"{within}.svc", f"{within}.svc.cluster.local", within, self.service]
        return names + ([self.host] if self.host is not None and _is_loopback(self.host) else [])


@dataclass(slots=True)
class WebhookServer:
    """The port. `run` it as a task."""

    api: ApiClient
    opening: ServingOptions
    scheduler: str = "weir"
    devices: DeviceResources = field(default_factory=DeviceResources)
    is_alive: Callable[[], bool] = lambda: True
    trouble: Callable[[], str] = lambda: ""
    metrics: Callable[[], bytes] = lambda: b""
    owners: OwnerIndex | None = None
    query: QueryService | None = None
    node_agents: tuple[NodeReports, Callable[[str], NodeShares | None]] | None = None
    port: int = 0  # port in use; 0: not listening
    clock: Callable[[], float] = time.time  # of the API server, which checks the certificates
    without_project: WithoutProject = IGNORE
    # Labels of namespaces, if namespaces without a project need them
    _labels: dict[str, dict[str, str]] = field(default_factory=dict)
    _objects: dict[str, dict[str, QueueObject]] = field(default_factory=dict)
    _quota_tree: QuotaTree | None = None
    classes: ClassResources = field(init=False)

    def __post_init__(self) -> None:
        self.classes = ClassResources(self.devices)

    async def run(self) -> None:
        """Answer requests until cancelled."""
        opening, tls = self.opening, tls_context(self.opening.client_authorities)
        certificate_rotation = CertificateRotation(
            self.api,
            tls,
            namespace=opening.namespace,
            secret=opening.secret,
            configurations=opening.service,
            names=opening.names,
            api_service="" if self.query is None else API_SERVICE,
            now=lambda: datetime.fromtimestamp(self.clock(), UTC),
        )
        reflectors = [self._reflector(resource) for resource in _QUEUES]
        of_classes = path_of(RESOURCE_API, "deviceclasses")
        reflectors.append(Reflector(self.api, of_classes, DeviceClass, self.classes.deliver))
        if self.without_project.labels:
            reflectors.append(Reflector(self.api, path_of("v1", "namespaces"), Namespace, self._see_labels))
        async with asyncio.TaskGroup() as tasks:
            for reflector in reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(_renew(certificate_rotation))
            if self.query is not None:
                tasks.create_task(self.query.run(tls))
            await asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))
            self._know()
            await self._answer(certificate_rotation)

    async def _answer(self, certificate_rotation: CertificateRotation) -> None:
        opening = self.opening
        served = WebhookServices(
            quota_tree=lambda: self._quota_tree,
            reading=PodRules(
                self.scheduler,
                self.classes.is_device,
                self._refusals,
                lambda: self.classes.share_resource,
            ),
            token_reviewer=TokenReviewer(self.api),
            caller_key=lambda: certificate_rotation.caller_key,
            is_alive=self.is_alive,
            is_ready=lambda: bool(certificate_rotation.served),
            trouble=self.trouble,
            metrics=self.metrics,
            owners=self.owners,
            claims=ClaimedClasses(self.api, self.classes.is_gpu_class),
            fresh_quota_tree=FreshQuotaTree(self._read_now),
            is_front_proxy=self._is_front_proxy,
        )
        app = application(served, client_authorities=opening.client_authorities is not None)
        if self.query is not None:
            for routes in self.query.routes():
                routes.add(app)
        if self.node_agents is not None:
            NodeReportRoute(NodeTokens(self.api, opening.namespace), *self.node_agents).add(app)
        try:
            runner = await serve(app, certificate_rotation.tls, opening.host, opening.port)
        except OSError as error:
            why = "another process uses it" if error.errno == errno.EADDRINUSE else error.strerror
            raise CannotListen(
                f"Port {opening.port} isn't available, {why}: choose another with --port."
            ) from None
        try:
            self.port = runner.port
            _LOG.info("listening", port=self.port)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    def _is_front_proxy(self, certificate: bytes) -> bool:
        """Return True if a certificate is the front proxy's, and not that of a webhook's caller."""
        if self.query is None or not self.query.is_front_proxy(certificate):
            return False
        authorities = self.opening.client_authorities
        return authorities is None or not is_issued_by(certificate, authorities.read_bytes())

    def _refusals(self, pod: KubePod, annotations: Annotations) -> Sequence[str]:
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        names = {
            name
            for container in containers
            for name in (*container.resources.limits, *container.resources.requests)
        }
        by_class = tuple(sorted(name for name in names if name.startswith(CLASS_PREFIX)))
        is_share = self.classes.share_resource in by_class
        claims = ClaimConstraints(is_share=is_share, provided=by_class, counted=by_class)
        return parse_request(pod, annotations, devices=self.devices, claims=claims).refusals

    def _reflector(self, resource: str) -> Reflector[Any]:
        objects = self._objects.setdefault(resource, {})

        def deliver(changes: Sequence[Change[QuotaObject]]) -> None:
            keep(changes, objects, _object)
            if self._quota_tree is not None:
                self._know()

        return Reflector(self.api, path_of(API_VERSION, resource), QuotaObject, deliver)

    def _see_labels(self, changes: Sequence[Change[Namespace]]) -> None:
        keep(changes, self._labels, lambda namespace: namespace.metadata.labels)
        if self._quota_tree is not None:
            self._know()

    async def _read_now(self) -> QuotaTree:
        """Return the quota objects as the API server has them now; their watches may lag behind."""
        lists = await asyncio.gather(
            *(self.api.list_all(path_of(API_VERSION, resource), QuotaObject) for resource in _QUEUES)
        )
        departments, projects, topologies = (
            {quota_object.metadata.name: _object(quota_object) for quota_object in objects}
            for objects in lists
        )
        return QuotaTree(departments, projects, topologies, self.without_project, dict(self._labels))

    def _know(self) -> None:
        departments, projects, topologies = (dict(self._objects[resource]) for resource in _QUEUES)
        self._quota_tree = QuotaTree(
            departments, projects, topologies, self.without_project, dict(self._labels)
        )


async def _renew(certificate_rotation: CertificateRotation) -> None:
    while True:
        after_s = await certificate_rotation.round()
        await asyncio.sleep(after_s)


def _object(quota_object: QuotaObject) -> QueueObject:
    metadata = quota_object.metadata
    made = metadata.creation_timestamp
    created_s = datetime.fromisoformat(made).timestamp() if made else 0.0
    return QueueObject(metadata.name, quota_object.spec, created_s)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
