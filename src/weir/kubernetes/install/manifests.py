"""Everything an installation consists of, as objects for `kubectl apply -f -`.

Two replicas, one of which leads. They need no rights on their node and no fixed user, so that
restricted profiles take them as they are. What the account may do is what some part of Weir does, each rule
with the one that needs it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from weir import __version__
from weir.kubernetes.admission.webhook_configuration import NAME, registrations
from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.crd.notification_objects import PLURAL as NOTIFICATIONS
from weir.kubernetes.crd.notification_objects import READ_ROLE
from weir.kubernetes.crd.notification_objects import SECRET as RULE_SECRET
from weir.kubernetes.crd.scheduler_config import PLURAL as CONFIGS
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.crd.shared_nodes_spec import NAME as SHARED_NODES_NAME
from weir.kubernetes.crd.shared_nodes_spec import PLURAL as SHARED_NODES
from weir.kubernetes.crd.sweep_objects import PLURAL as SWEEPS
from weir.kubernetes.install.admission_policies import OptionalPolicies, account_name, policies
from weir.kubernetes.install.dashboard_server import DashboardOptions, dashboard_server
from weir.kubernetes.install.deployment import PORT, PodOptions, deployment
from weir.kubernetes.install.flow_control import lease_flow
from weir.kubernetes.install.installation_name import INSTALLATION
from weir.kubernetes.install.monitoring import METRICS_ROLE, monitoring
from weir.kubernetes.install.node_agent import NodeAgents, node_agents
from weir.kubernetes.install.parts import LABELS, PRIVILEGED, RESTRICTED, Thing, thing, within
from weir.kubernetes.install.priority_classes import ClassNames, priority_classes
from weir.kubernetes.install.project_leads import people
from weir.kubernetes.install.query_api import FRONT_PROXY_ROLE, job_messages, labelled_api_service
from weir.kubernetes.query.discovery import API_SERVICE, read_rules
from weir.kubernetes.query.front_proxy import CONFIG_NAMESPACE as FRONT_PROXY_NAMESPACE
from weir.kubernetes.translate.device_list import devices_written
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.kinds import WorkloadKinds, load_kinds

SECRET = f"{NAME}-webhook"
MORE_KINDS = f"rbac.{GROUP}/aggregate-to-weir"
"""Label of a cluster role that lets Weir read kinds added to the table."""
_RBAC = "rbac.authorization.k8s.io"
_OWN = ("departments", "projects", "topologies", "workloads")


@dataclass(frozen=True, slots=True)
class Installation:
    """Options of an installation."""

    namespace: str = "weir-system"
    image: str = f"weir:{__version__}"
    replicas: int = 2
    scheduler: str = "weir"
    devices: tuple[str, ...] = DeviceResources().resources
    weights: tuple[tuple[str, int], ...] = ()  # of devices that aren't a GPU each, in thousandths
    sources: tuple[str, ...] = ()  # of traffic to its port, by network.source; empty: any
    optional: OptionalPolicies = field(default_factory=OptionalPolicies)
    priority_classes: ClassNames = "prefixed"
    pods: PodOptions = field(default_factory=PodOptions)
    monitoring: bool = False  # objects of the Prometheus operator
    query_api: bool = True  # the APIService by which the API server forwards questions
    job_messages: bool = True  # the right of every pod to send messages about itself
    node: NodeAgents | None = None  # agents that report the use of GPUs
    dashboard: DashboardOptions | None = None  # behind a sign-in with OpenID Connect
    read_all_receivers: bool = False  # Secrets with addresses of webhooks, in all namespaces


def manifests(of: Installation, kinds: WorkloadKinds | None = None) -> list[Thing]:
    """Return all objects, in an order in which they can be created."""
    return [
        thing("v1", "Namespace", of.namespace, labels={**LABELS, **(PRIVILEGED if of.node else RESTRICTED)}),
        *definitions(),
        *priority_classes(of.priority_classes),
        *access(of, kinds or load_kinds()),
        *people((*_OWN, CONFIGS, SHARED_NODES), account_name(of.namespace)),
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
            more_words=of.optional.without_project.words(),
        ),
        *_agents(of),
        *_dashboard(of),
        *registrations(
            {"service": {"namespace": of.namespace, "name": NAME, "port": 443}},
            scheduler=of.scheduler,
            devices=of.devices,
            but_not_in=["kube-system", of.namespace],
        ),
        *([labelled_api_service(of.namespace)] if of.query_api else []),
        *(job_messages() if of.job_messages else []),
        *(monitoring(of.namespace, SECRET) if of.monitoring else ()),
        *policies(namespace=of.namespace, scheduler=of.scheduler, devices=of.devices, options=of.optional),
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


# What it may do


def access(of: Installation, kinds: WorkloadKinds) -> list[Thing]:
    """Return the service account and its roles, with no more rights than Weir uses."""
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": of.namespace}
    aggregated = {"clusterRoleSelectors": [{"matchLabels": {MORE_KINDS: "true"}}]}
    return [
        {**within(of.namespace, "v1", "ServiceAccount", NAME), "automountServiceAccountToken": False},
        thing(f"{_RBAC}/v1", "ClusterRole", NAME, rules=_rules(kinds)),
        _bound("ClusterRoleBinding", NAME, account),
        thing(f"{_RBAC}/v1", "ClusterRole", f"{NAME}-kinds", aggregationRule=aggregated),
        _bound("ClusterRoleBinding", f"{NAME}-kinds", account),
        within(of.namespace, f"{_RBAC}/v1", "Role", NAME, rules=_rules_at_home()),
        {**within(of.namespace, f"{_RBAC}/v1", "RoleBinding", NAME), **_to("Role", NAME, account)},
        thing(
            f"{_RBAC}/v1",
            "ClusterRole",
            METRICS_ROLE,
            rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        ),
        thing(
            f"{_RBAC}/v1",
            "ClusterRole",
            f"{NAME}-delete-pods",  # a budget protects what is borrowed for a while; without it for good
            labels={**LABELS, MORE_KINDS: "true"},
            rules=[_may("delete", "", "pods")],
        ),
        *_roles_of_people(),
        thing(  # bound by an administrator where Weir may make the Jobs of sweeps
            f"{_RBAC}/v1",
            "ClusterRole",
            f"{NAME}-sweeps",
            rules=[_may("create delete", "batch", "jobs")],
        ),
        thing(  # bound in namespaces where Weir may read addresses of webhooks: one Secret by its name
            f"{_RBAC}/v1",
            "ClusterRole",
            READ_ROLE,
            rules=[_may("get", "", "secrets", names=[RULE_SECRET])],
        ),
        *([_bound("ClusterRoleBinding", READ_ROLE, account)] if of.read_all_receivers else []),
        {
            **within(FRONT_PROXY_NAMESPACE, f"{_RBAC}/v1", "RoleBinding", f"{NAME}-front-proxy"),
            **_to("Role", FRONT_PROXY_ROLE, account),
        },
    ]


def _roles_of_people() -> list[Thing]:
    """Return the roles that the cluster adds to view, edit and admin."""
    return [
        thing(
            f"{_RBAC}/v1",
            "ClusterRole",
            f"{NAME}-view",
            labels={
                **LABELS,
                **{f"{_RBAC}/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")},
            },
            rules=[
                _may("get list watch", GROUP, *_OWN, CONFIGS, SHARED_NODES, SWEEPS, NOTIFICATIONS),
                *read_rules(),
            ],
        ),
        thing(  # people who may make Jobs may make sweeps
            f"{_RBAC}/v1",
            "ClusterRole",
            f"{NAME}-edit",
            labels={**LABELS, **{f"{_RBAC}/aggregate-to-{role}": "true" for role in ("edit", "admin")}},
            rules=[_may("create update patch delete deletecollection", GROUP, SWEEPS, NOTIFICATIONS)],
        ),
    ]


def _bound(kind: str, role: str, account: Thing) -> Thing:
    return {**thing(f"{_RBAC}/v1", kind, role), **_to("ClusterRole", role, account)}


def _to(kind: str, role: str, account: Thing) -> Thing:
    return {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role}, "subjects": [account]}


def _may(verbs: str, group: str, *resources: str, names: Sequence[str] = ()) -> Thing:
    rule: Thing = {"apiGroups": [group], "resources": list(resources), "verbs": verbs.split()}
    return {**rule, "resourceNames": list(names)} if names else rule


def _rules(kinds: WorkloadKinds) -> list[Thing]:
    look = "list watch"
    return [
        # what there is
        _may(look, "", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
        _may(f"get {look}", "", "pods"),
        _may(look, "scheduling.k8s.io", "priorityclasses", "podgroups", "workloads"),
        _may(look, "policy", "poddisruptionbudgets"),
        _may(look, "storage.k8s.io", "storageclasses", "csinodes"),
        _may(look, "resource.k8s.io", "deviceclasses", "resourceslices", "devicetaintrules"),
        _may(f"get {look}", "resource.k8s.io", "resourceclaims"),
        _may("get", "resource.k8s.io", "resourceclaimtemplates"),  # of a pod that may claim GPUs
        *_owners(kinds),
        # what it does
        _may("create", "", "pods/binding", "pods/eviction"),
        _may("patch", "", "pods/status"),  # the node kept for a pod, the claim for its extended resources
        _may("patch", "scheduling.k8s.io", "podgroups/status"),  # whether a pod group is placed
        _may("patch", "", "persistentvolumeclaims", "persistentvolumes"),  # a volume follows its pod's node
        # the devices of a claim, before its pod is bound, and the claim for its extended resources
        _may("patch", "resource.k8s.io", "resourceclaims", "resourceclaims/status"),
        _may("create delete", "resource.k8s.io", "resourceclaims"),
        _may("update patch", "resource.k8s.io", "resourceclaims/binding"),
        _may("patch", "batch", "jobs"),  # idle ones are suspended; a policy allows nothing else
        _may("patch", "", "nodes"),  # the taint of nodes that are set aside for shares
        _may(f"create {look}", "events.k8s.io", "events"),  # its own ones are answered, too
        # its own kinds
        _may(look, GROUP, *_OWN[:3], CONFIGS),
        _may("patch", GROUP, *(f"{each}/status" for each in (*_OWN[:3], CONFIGS))),
        _may("patch", GROUP, "projects", "departments"),  # the finalizer; a policy allows nothing else
        _may(f"{look} create patch", GROUP, "workloads"),
        _may("create patch", GROUP, SHARED_NODES, names=[SHARED_NODES_NAME]),
        _may(f"get {look}", GROUP, SWEEPS),
        _may("patch", GROUP, f"{SWEEPS}/status"),
        _may("get", "batch", "jobs"),  # those of trials
        _may(look, GROUP, NOTIFICATIONS),
        _may("patch", GROUP, f"{NOTIFICATIONS}/status"),
        # its port
        _may(
            "get patch",
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            names=[NAME],
        ),
        _may("get patch delete", "apiregistration.k8s.io", "apiservices", names=[API_SERVICE]),
        _may("create", "authentication.k8s.io", "tokenreviews"),
        _may("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]


def _owners(kinds: WorkloadKinds) -> Iterable[Thing]:
    """Yield the roles that read the kinds of the table."""
    by_group: dict[str, set[str]] = {}
    for watched in kinds.watched:
        for api_version in watched.api_versions:
            group = api_version.rpartition("/")[0]
            by_group.setdefault(group, set()).add(watched.resource)
    for group, resources in sorted(by_group.items()):
        yield _may("list watch", group, *sorted(resources))


def _rules_at_home() -> list[Thing]:
    return [
        _may("create", "coordination.k8s.io", "leases"),
        _may("get list update watch", "coordination.k8s.io", "leases", names=[NAME]),
        _may("get update", "", "secrets", names=[SECRET]),
        # its own one again after it was deleted; RBAC knows no names of new objects
        _may("create", "", "secrets"),
    ]


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
    rules = [_may("get", "", "configmaps", names=[INSTALLATION])]
    everyone = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        within(of.namespace, "v1", "ConfigMap", INSTALLATION, data=data),
        within(of.namespace, f"{_RBAC}/v1", "Role", INSTALLATION, rules=rules),
        {
            **within(of.namespace, f"{_RBAC}/v1", "RoleBinding", INSTALLATION),
            **_to("Role", INSTALLATION, everyone),
        },
    ]
