"""The service account of Weir and its roles, with no more rights than some part of Weir uses.

What Weir changes in namespaces is a role of its own. It is bound in the whole cluster, or in each managed
namespace alone. What Weir reads is bound in the whole cluster: pods of any namespace take GPUs of a node.
"""

from collections.abc import Iterable

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.api.managed_namespaces import ManagedNamespaces
from weir.kubernetes.crd.notification_objects import PLURAL as NOTIFICATIONS
from weir.kubernetes.crd.notification_objects import READ_ROLE
from weir.kubernetes.crd.notification_objects import SECRET as RULE_SECRET
from weir.kubernetes.crd.scheduler_config import PLURAL as CONFIGS
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.crd.shared_nodes_spec import NAME as SHARED_NODES_NAME
from weir.kubernetes.crd.shared_nodes_spec import PLURAL as SHARED_NODES
from weir.kubernetes.crd.sweep_objects import PLURAL as SWEEPS
from weir.kubernetes.install.parts import LABELS, Manifest
from weir.kubernetes.install.rights.query_api import FRONT_PROXY_ROLE
from weir.kubernetes.install.rights.roles import (
    RBAC,
    binding,
    cluster_binding,
    cluster_role,
    may,
    role,
    service_account,
    subject,
)
from weir.kubernetes.query.aggregation.discovery import API_SERVICE, read_rules
from weir.kubernetes.query.aggregation.front_proxy import CONFIG_NAMESPACE as FRONT_PROXY_NAMESPACE
from weir.kubernetes.translate.kinds import WorkloadKinds

SECRET = f"{NAME}-webhook"
METRICS_ROLE = f"{NAME}-metrics"
MORE_KINDS = f"rbac.{GROUP}/aggregate-to-weir"
"""Label of a cluster role with rights on kinds added to the table."""
OWN_KINDS = ("departments", "projects", "topologies", "workloads")
_IN_NAMESPACES, _DELETE_PODS, _EVENTS = f"{NAME}-namespaces", f"{NAME}-delete-pods", f"{NAME}-events"


def access(
    namespace: str, kinds: WorkloadKinds, managed: ManagedNamespaces, *, reads_receivers: bool
) -> list[Manifest]:
    """Return the service account and its roles.

    With `reads_receivers` it may read the Secret with receivers of every managed namespace.
    """
    account = subject(namespace, NAME)
    aggregated = {"clusterRoleSelectors": [{"matchLabels": {MORE_KINDS: "true"}}]}
    return [
        service_account(namespace, NAME),
        cluster_role(NAME, *_rules_of_cluster(kinds)),
        cluster_binding(NAME, account),
        cluster_role(f"{NAME}-kinds", aggregationRule=aggregated),
        cluster_binding(f"{NAME}-kinds", account),
        cluster_role(_IN_NAMESPACES, *_rules_in_namespaces(kinds)),
        *_bound_where_managed(_IN_NAMESPACES, account, managed),
        # without this role, a budget protects work over quota for ever, instead of for a while
        cluster_role(_DELETE_PODS, may("delete", "", "pods")),
        *_bound_where_managed(_DELETE_PODS, account, managed),
        *([] if managed.are_all else _events_of_cluster(account)),
        role(namespace, NAME, *_rules_at_home()),
        binding(namespace, NAME, account),
        cluster_role(METRICS_ROLE, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        *_roles_of_people(),
        # bound by an administrator where Weir may make the Jobs of sweeps
        cluster_role(f"{NAME}-sweeps", may("create delete", "batch", "jobs")),
        # bound in namespaces where Weir may read addresses of webhooks: one Secret by its name
        cluster_role(READ_ROLE, may("get", "", "secrets", names=[RULE_SECRET])),
        *(_bound_where_managed(READ_ROLE, account, managed) if reads_receivers else []),
        binding(FRONT_PROXY_NAMESPACE, f"{NAME}-front-proxy", account, role=FRONT_PROXY_ROLE),
    ]


def _roles_of_people() -> list[Manifest]:
    """Return the roles that the cluster adds to view, edit and admin."""
    return [
        cluster_role(
            f"{NAME}-view",
            may("get list watch", GROUP, *OWN_KINDS, CONFIGS, SHARED_NODES, SWEEPS, NOTIFICATIONS),
            *read_rules(),
            labels=_added_to("view", "edit", "admin"),
        ),
        cluster_role(  # people who may make Jobs may make sweeps
            f"{NAME}-edit",
            may("create update patch delete deletecollection", GROUP, SWEEPS, NOTIFICATIONS),
            labels=_added_to("edit", "admin"),
        ),
    ]


def _added_to(*roles: str) -> Manifest:
    return {**LABELS, **{f"{RBAC}/aggregate-to-{role}": "true" for role in roles}}


def _bound_where_managed(name: str, account: Manifest, managed: ManagedNamespaces) -> list[Manifest]:
    """Return the bindings of a role: one of the cluster, or one in each managed namespace."""
    if managed.are_all:
        return [cluster_binding(name, account)]
    return [binding(namespace, name, account, kind="ClusterRole") for namespace in managed.names]


def _events_of_cluster(account: Manifest) -> list[Manifest]:
    """Return the right to create events about objects that are in no namespace: they are in `default`."""
    create = may("create", "events.k8s.io", "events")
    return [role("default", _EVENTS, create), binding("default", _EVENTS, account)]


def _rules_of_cluster(kinds: WorkloadKinds) -> list[Manifest]:
    """Return the rules for reading, and for objects that are in no namespace."""
    look = "list watch"
    return [
        # objects to read
        may(look, "", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
        may(f"get {look}", "", "pods"),
        may(look, "scheduling.k8s.io", "priorityclasses", "podgroups", "workloads"),
        may(look, "policy", "poddisruptionbudgets"),
        may(look, "storage.k8s.io", "storageclasses", "csinodes"),
        may(look, "resource.k8s.io", "deviceclasses", "resourceslices", "devicetaintrules"),
        may(f"get {look}", "resource.k8s.io", "resourceclaims", "resourceclaimtemplates"),
        may("get", "batch", "jobs"),  # to read the Jobs of trials
        may(look, "events.k8s.io", "events"),  # to read its own events for queries
        may(look, GROUP, *OWN_KINDS, CONFIGS, NOTIFICATIONS),
        may(f"get {look}", GROUP, SWEEPS),
        *_owners(kinds),
        # objects to write
        may("patch", "", "persistentvolumes"),  # to bind a volume to the pod's node
        may("patch", "", "nodes"),  # the taint of nodes that are set aside for shares
        may("patch", GROUP, *(f"{kind}/status" for kind in (*OWN_KINDS[:3], CONFIGS))),
        # To write the finalizer; a policy refuses other changes
        may("patch", GROUP, "projects", "departments"),
        may("create patch", GROUP, SHARED_NODES, names=[SHARED_NODES_NAME]),
        # to serve its port
        may(
            "get patch",
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            names=[NAME],
        ),
        may("get patch delete", "apiregistration.k8s.io", "apiservices", names=[API_SERVICE]),
        may("create", "authentication.k8s.io", "tokenreviews"),
        may("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]


def _rules_in_namespaces(kinds: WorkloadKinds) -> list[Manifest]:
    """Return the rules for changes to objects of namespaces."""
    # Stopped by their suspension; policies allow nothing else. Kinds of `spec.kinds` are unknown here: an
    # administrator gives the right, and the policy
    suspended = [may("patch", suspension.group, suspension.resource) for suspension in kinds.suspensions]
    return [
        *suspended,
        may("create", "", "pods/binding", "pods/eviction"),
        may("patch", "", "pods/status"),  # the node kept for a pod, the claim for its extended resources
        may("patch", "scheduling.k8s.io", "podgroups/status"),  # to report the placement of a pod group
        may("patch", "", "persistentvolumeclaims"),  # to bind a volume to the pod's node
        # to allocate the devices of a claim before its pod is bound
        may("patch", "resource.k8s.io", "resourceclaims", "resourceclaims/status"),
        may("create delete", "resource.k8s.io", "resourceclaims"),
        may("update patch", "resource.k8s.io", "resourceclaims/binding"),
        may("patch", "batch", "jobs"),  # to suspend idle Jobs; a policy refuses other changes
        may("create", "events.k8s.io", "events"),
        may("create patch", GROUP, "workloads"),
        may("patch", GROUP, f"{SWEEPS}/status", f"{NOTIFICATIONS}/status"),
    ]


def _owners(kinds: WorkloadKinds) -> Iterable[Manifest]:
    """Yield the roles that read the kinds of the table."""
    by_group: dict[str, set[str]] = {}
    for watched in kinds.watched:
        for api_version in watched.api_versions:
            group = api_version.rpartition("/")[0]
            by_group.setdefault(group, set()).add(watched.resource)
    for group, resources in sorted(by_group.items()):
        yield may("list watch", group, *sorted(resources))


def _rules_at_home() -> list[Manifest]:
    return [
        may("create", "coordination.k8s.io", "leases"),
        may("get list update watch", "coordination.k8s.io", "leases", names=[NAME]),
        may("get update", "", "secrets", names=[SECRET]),
        # to create its own Secret again; RBAC can't name new objects
        may("create", "", "secrets"),
    ]
