"""Parts of the tests of admission policies: an installation without a running Weir, and a tenant."""

from collections.abc import Callable
from typing import Any

from tools.controlplane.api import Api, ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_policies, wait_for_rights

from weir.kubernetes.install.manifests import Installation, manifests
from weir.kubernetes.install.policies.admission_policies import OptionalPolicies

GPUS, START = "weir.dev/gpus", "weir.dev/start"
RBAC = "rbac.authorization.k8s.io"
POLICY = "ValidatingAdmissionPolicy"
APPLIED = (POLICY, f"{POLICY}Binding", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
DEVICES = ("nvidia.com/gpu", "a.io/card-*")
FREE: dict[str, Any] = {"scheduler": "default-scheduler"}


def install_policies(cluster: Cluster, **options: Any) -> str:
    """Install the policies and rights of Weir; return the namespace when they are enforced."""
    home = cluster.namespace()
    chosen = Installation(home, devices=DEVICES, optional=OptionalPolicies(**options))
    cluster.api.apply(*(each for each in manifests(chosen) if each["kind"] in APPLIED))
    wait_for_policies(cluster.api)
    return home


class Site:
    """An installation, and a tenant with every right on pods in one namespace."""

    def __init__(
        self,
        cluster: Cluster,
        act_as: Callable[..., Api],
        home: str | None = None,
        **options: Any,
    ) -> None:
        """Create the tenant, and an installation with these options unless one is named by its namespace."""
        self.cluster = cluster
        self.act_as = act_as
        self.home = install_policies(cluster, **options) if home is None else home
        self.within = cluster.namespace()
        self.weir = act_as(f"system:serviceaccount:{self.home}:weir", "system:serviceaccounts")
        self.tenant = self.add_tenant(self.within)

    def add_tenant(self, namespace: str) -> Api:
        who = f"system:serviceaccount:{namespace}:default"
        metadata = {"name": "tenant", "namespace": namespace}
        groups = ["", "batch", "apps", "events.k8s.io"]
        rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
        subject = {"apiGroup": RBAC, "kind": "User", "name": who}
        ref = {"apiGroup": RBAC, "kind": "Role", "name": "tenant"}
        made = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
        self.cluster.api.apply(
            {**made, "kind": "Role", "rules": rules},
            {**made, "kind": "RoleBinding", "roleRef": ref, "subjects": [subject]},
        )
        wait_for_rights(self.cluster.api)
        return self.act_as(who, "system:serviceaccounts")

    def path(self, name: str, sub: str = "") -> str:
        return f"/api/v1/namespaces/{self.within}/pods/{name}" + (f"/{sub}" if sub else "")

    def refusal(self, one: Object, *, dry: bool = False) -> str:
        """Return the sentence that refuses an object of the tenant; empty if it passes."""
        namespace, kind = one["metadata"]["namespace"], one["kind"].lower() + "s"
        root = {"pods": "/api/v1", "jobs": "/apis/batch/v1"}[kind]
        path = f"{root}/namespaces/{namespace}/{kind}" + ("?dryRun=All" if dry else "")
        return answer(lambda: self.tenant.post(path, one))

    def bind(self, client: Api, name: str, node: str, words: dict[str, str]) -> None:
        body = binding(name, node, annotations=words)
        client.post(self.path(name, "binding"), body)


def binding(name: str, node: str, **metadata: Any) -> Object:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}


def answer(act: Callable[[], object]) -> str:
    try:
        act()
    except ApiError as why:
        return why.message.partition("denied request: ")[2] or why.message
    return ""


def annotations(**words: str | None) -> Object:
    return {"metadata": {"annotations": {f"weir.dev/{key}": value for key, value in words.items()}}}
