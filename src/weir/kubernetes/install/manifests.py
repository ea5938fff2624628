"""Everything an installation consists of, as objects for `kubectl apply -f -`.

Two replicas, one of which leads. They need no rights on their node and no fixed user, so that
restricted profiles take them as they are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from weir import __version__
from weir.kubernetes.admission.webhook_configuration import NAME, registrations
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.crd.scheduler_config import PLURAL as CONFIGS
from weir.kubernetes.crd.shared_nodes_spec import PLURAL as SHARED_NODES
from weir.kubernetes.install.flow_control import lease_flow
from weir.kubernetes.install.installation_name import INSTALLATION
from weir.kubernetes.install.monitoring.prometheus import monitoring
from weir.kubernetes.install.parts import LABELS, PRIVILEGED, RESTRICTED, Manifest, cluster_object, within
from weir.kubernetes.install.pods.dashboard_server import DashboardOptions, dashboard_server
from weir.kubernetes.install.pods.deployment import PORT, PodOptions, deployment
from weir.kubernetes.install.pods.node_agent import NodeAgents, node_agents
from weir.kubernetes.install.policies.admission_policies import OptionalPolicies, account_name, policies
from weir.kubernetes.install.priority_classes import ClassNames, priority_classes
from weir.kubernetes.install.rights.access import OWN_KINDS, SECRET, access
from weir.kubernetes.install.rights.project_leads import people
from weir.kubernetes.install.rights.query_api import job_messages, labelled_api_service
from weir.kubernetes.install.rights.roles import binding, group, may, role
from weir.kubernetes.translate.device_list import devices_written
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.kinds import load_kinds


@dataclass(frozen=True, slots=True)
class Installation:
    """Options of an installation."""

    namespace: str = "weir-system"
    image: str = f"weir:{__version__}"
    replicas: int = 2
    scheduler: str = "weir"
    managed: ManagedNamespaces = ALL
    devices: tuple[str, ...] = DeviceResources().resources
    # Thousandths of a GPU by resource, for devices that don't count as one each
    weights: tuple[tuple[str, int], ...] = ()
    sources: tuple[str, ...] = ()  # allowed sources of traffic by network.source; empty: any
    optional: OptionalPolicies = field(default_factory=OptionalPolicies)
    priority_classes: ClassNames = "prefixed"
    pods: PodOptions = field(default_factory=PodOptions)
    monitoring: bool = False  # install objects of the Prometheus operator
    query_api: bool = True  # register the aggregated API
    job_messages: bool = True  # let every pod send messages about itself
    node: NodeAgents | None = None  # agents that report the use of GPUs
    dashboard: DashboardOptions | None = None  # behind a sign-in with OpenID Connect
    read_all_receivers: bool = False  # read webhook addresses from Secrets of all namespaces


def manifests(installation: Installation) -> list[Manifest]:
    """Return all objects, in an order in which they can be created."""
    return [
        cluster_object(
            "v1",
            "Namespace",
            installation.namespace,
            labels={**LABELS, **(PRIVILEGED if installation.node else RESTRICTED)},
        ),
        *definitions(),
        *priority_classes(installation.priority_classes),
        *access(
            installation.namespace,
            load_kinds(),
            installation.managed,
            reads_receivers=installation.read_all_receivers,
        ),
        *people((*OWN_KINDS, CONFIGS, SHARED_NODES), account_name(installation.namespace)),
        lease_flow(installation.namespace),
        *_settings_for_all(installation),
        within(installation.namespace, "v1", "Secret", SECRET, type="Opaque"),
        *deployment(
            installation.namespace,
            installation.image,
            installation.replicas,
            scheduler=installation.scheduler,
            devices=devices_written(DeviceResources(installation.devices, weights=installation.weights)),
            sources=installation.sources,
            options=installation.pods,
            more_words=(*installation.managed.words(), *installation.optional.without_project.words()),
        ),
        *_agents(installation),
        *_dashboard(installation),
        *registrations(
            {"service": {"namespace": installation.namespace, "name": NAME, "port": 443}},
            scheduler=installation.scheduler,
            devices=installation.devices,
            but_not_in=["kube-system", installation.namespace],
            managed=installation.managed,
        ),
        *([labelled_api_service(installation.namespace)] if installation.query_api else []),
        *(job_messages() if installation.job_messages else []),
        *(monitoring(installation.namespace, SECRET) if installation.monitoring else ()),
        *policies(
            namespace=installation.namespace,
            scheduler=installation.scheduler,
            devices=installation.devices,
            options=installation.optional,
            managed=installation.managed,
        ),
    ]


def _agents(installation: Installation) -> list[Manifest]:
    if installation.node is None:
        return []
    secrets = installation.pods.pull_secrets
    return node_agents(
        installation.namespace,
        installation.image,
        installation.node,
        port=PORT,
        secret=SECRET,
        pull_secrets=secrets,
    )


def _dashboard(installation: Installation) -> list[Manifest]:
    if installation.dashboard is None:
        return []
    return dashboard_server(
        installation.namespace,
        installation.image,
        installation.dashboard,
        node_selector=installation.pods.node_selector,
        tolerations=installation.pods.tolerations,
        pull_secrets=installation.pods.pull_secrets,
    )


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Plain(_DUMPER):  # type: ignore[misc]  # one of two classes, by what is installed
    """Repeats rather than refers."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - what the dumper asks for each value
        """Return True: some readers of this YAML know no references."""
        return True


def as_yaml(documents: Iterable[Manifest]) -> str:
    """Return objects as YAML for kubectl."""
    text: str = yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, width=110)
    return text


def _settings_for_all(installation: Installation) -> list[Manifest]:
    """Return copies of the scheduler's settings for the command line, which runs with any account."""
    rule = installation.optional.without_project
    data = {
        "scheduler": installation.scheduler,
        "devices": devices_written(DeviceResources(installation.devices, weights=installation.weights)),
    }
    if rule.action != "ignore":
        stated = {
            "withoutProject": rule.action if rule.action != "queue" else f"queue:{rule.project}",
            "withoutProjectIn": ",".join(f"{key}={value}" for key, value in rule.labels),
            "withoutProjectExempt": ",".join(rule.exempt),
        }
        data |= {key: value for key, value in stated.items() if value}
    return [
        within(installation.namespace, "v1", "ConfigMap", INSTALLATION, data=data),
        role(installation.namespace, INSTALLATION, may("get", "", "configmaps", names=[INSTALLATION])),
        binding(installation.namespace, INSTALLATION, group("system:authenticated")),
    ]
