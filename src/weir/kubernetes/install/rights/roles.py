"""Service accounts, roles and their bindings as objects."""

from collections.abc import Sequence
from typing import Any

from weir.kubernetes.install.parts import Manifest, cluster_object, within

RBAC = "rbac.authorization.k8s.io"
_API = f"{RBAC}/v1"


def service_account(namespace: str, name: str, **fields: Any) -> Manifest:
    """Return an account whose token a pod gets only if it asks for it."""
    account = within(namespace, "v1", "ServiceAccount", name, **fields)
    return {**account, "automountServiceAccountToken": False}


def subject(namespace: str, account: str) -> Manifest:
    """Return a service account as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": account, "namespace": namespace}


def group(name: str) -> Manifest:
    """Return a group of users as the subject of a binding."""
    return {"apiGroup": RBAC, "kind": "Group", "name": name}


def may(verbs: str, group: str, *resources: str, names: Sequence[str] = ()) -> Manifest:
    """Return a rule of a role, by verbs separated by spaces."""
    rule: Manifest = {"apiGroups": [group], "resources": list(resources), "verbs": verbs.split()}
    return {**rule, "resourceNames": list(names)} if names else rule


def cluster_role(name: str, *rules: Manifest, **fields: Any) -> Manifest:
    """Return a role of the whole cluster. One without rules gets those of other roles."""
    stated: Manifest = {"rules": list(rules)} if rules else {}
    return cluster_object(_API, "ClusterRole", name, **(stated | fields))


def role(namespace: str, name: str, *rules: Manifest) -> Manifest:
    """Return a role of a namespace."""
    return within(namespace, _API, "Role", name, rules=list(rules))


def cluster_binding(name: str, to: Manifest, *, role: str = "", **fields: Any) -> Manifest:
    """Return the binding of a cluster role in the whole cluster. It has the name of the role by default."""
    return cluster_object(
        _API, "ClusterRoleBinding", name, **fields, **_bound("ClusterRole", role or name, to)
    )


def binding(namespace: str, name: str, to: Manifest, *, role: str = "", kind: str = "Role") -> Manifest:
    """Return the binding of a role, or of a cluster role, in a namespace."""
    return within(namespace, _API, "RoleBinding", name, **_bound(kind, role or name, to))


def _bound(kind: str, role: str, to: Manifest) -> Manifest:
    return {"roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": [to]}
