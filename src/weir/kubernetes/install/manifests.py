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
from weir.kubernetes.install.parts import LABELS, PRIVILEGED, RESTRICTED, Thing, thing, within
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


def manifests(of: Installation) -> list[Thing]:
    """Return all objects, in an order in which they can be created."""
    return [
        thing("v1", "Namespace", of.namespace, labels={**LABELS, **(PRIVILEGED if of.node else RESTRICTED)}),
        *definitions(),
        *priority_classes(of.priority_classes),
        *access(
            of.namespace,
            load_kinds(),
            of.managed,
            reads_receivers=of.read_all_receivers,
        ),
        *people((*OWN_KINDS, CONFIGS, SHARED_NODES), account_name(of.namespace)),
        lease_flow(of.namespace),
        *_settings_for_all(of),
        within(of.namespace, "v1", "Secret", SECRET, type="Opaque"),
        *deployment(
            of.namespace,
            of.image,
            of.replicas,
            scheduler=of.scheduler,
            devices=devices_written(DeviceResources(of.devices, weights=of.weights)),
            sources=of.sources,
            options=of.pods,
            more_words=(*of.managed.words(), *of.optional.without_project.words()),
        ),
        *_agents(of),
        *_dashboard(of),
        *registrations(
            {"service": {"namespace": of.namespace, "name": NAME, "port": 443}},
            scheduler=of.scheduler,
            devices=of.devices,
            but_not_in=["kube-system", of.namespace],
            managed=of.managed,
        ),
        *([labelled_api_service(of.namespace)] if of.query_api else []),
        *(job_messages() if of.job_messages else []),
        *(monitoring(of.namespace, SECRET) if of.monitoring else ()),
        *policies(
            namespace=of.namespace,
            scheduler=of.scheduler,
            devices=of.devices,
            options=of.optional,
            managed=of.managed,
        ),
    ]


def _agents(of: Installation) -> list[Thing]:
    if of.node is None:
        return []
    secrets = of.pods.pull_secrets
    return node_agents(of.namespace, of.image, of.node, port=PORT, secret=SECRET, pull_secrets=secrets)


def _dashboard(of: Installation) -> list[Thing]:
    if of.dashboard is None:
        return []
    return dashboard_server(
        of.namespace,
        of.image,
        of.dashboard,
        node_selector=of.pods.node_selector,
        tolerations=of.pods.tolerations,
        pull_secrets=of.pods.pull_secrets,
    )


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Plain(_DUMPER):  # type: ignore[misc]  # one of two classes, by what is installed
    """Repeats rather than refers."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - what the dumper asks for each value
        """Return True: some readers of this YAML know no references."""
        return True


def as_yaml(things: Iterable[Thing]) -> str:
    """Return objects as YAML for kubectl."""
    text: str = yaml.dump_all(things, Dumper=_Plain, sort_keys=False, width=110)
    return text


def _settings_for_all(of: Installation) -> list[Thing]:
    """Return copies of the scheduler's settings for the command line, which runs with any account."""
    rule = of.optional.without_project
    data = {
        "scheduler": of.scheduler,
        "devices": devices_written(DeviceResources(of.devices, weights=of.weights)),
    }
    if rule.action != "ignore":
        stated = {
            "withoutProject": rule.action if rule.action != "queue" else f"queue:{rule.project}",
            "withoutProjectIn": ",".join(f"{key}={value}" for key, value in rule.labels),
            "withoutProjectExempt": ",".join(rule.exempt),
        }
        data |= {key: value for key, value in stated.items() if value}
    return [
        within(of.namespace, "v1", "ConfigMap", INSTALLATION, data=data),
        role(of.namespace, INSTALLATION, may("get", "", "configmaps", names=[INSTALLATION])),
        binding(of.namespace, INSTALLATION, group("system:authenticated")),
    ]
