"""Rights of people on projects: administrators change everything, leads a part of it.

RBAC can limit a lead to projects by name, but not to fields. So an admission policy limits leads: without the
verb `set-quota` a person may change the times of a project and nothing else of its spec. Administrators of
the cluster have all verbs, and this one too.
"""

from collections.abc import Iterator

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.crd.definitions import project_fields
from weir.kubernetes.crd.schemas import GROUP, VERSION
from weir.kubernetes.install.parts import LABELS, Thing, thing
from weir.kubernetes.query.discovery import read_rules

SET_QUOTA = "set-quota"
ADMIN_ROLE = f"{NAME}-project-admin"
_POLICIES = "admissionregistration.k8s.io/v1"
_FREE = ("times",)
"""Fields of a project's spec that a lead may change."""


def people(own_kinds: tuple[str, ...], account: str) -> Iterator[Thing]:
    """Yield the role of administrators of projects, and the policy that limits leads.

    Weir's own account is left to a policy of its own, which lets it change less.
    """
    rules = [
        {
            "apiGroups": [GROUP],
            "resources": ["projects", "departments", "topologies"],
            "verbs": ["create", "update", "patch", "delete", SET_QUOTA],
        },
        {"apiGroups": [GROUP], "resources": list(own_kinds), "verbs": ["get", "list", "watch"]},
        *read_rules(),
    ]
    yield thing("rbac.authorization.k8s.io/v1", "ClusterRole", ADMIN_ROLE, rules=rules)
    name = f"{NAME}-project-leads"
    yield {
        "apiVersion": _POLICIES,
        "kind": "ValidatingAdmissionPolicy",
        **_named(name),
        "spec": _policy(account),
    }
    spec = {"policyName": name, "validationActions": ["Deny", "Audit"]}
    yield {
        "apiVersion": _POLICIES,
        "kind": "ValidatingAdmissionPolicyBinding",
        **_named(name),
        "spec": spec,
    }


def _named(name: str) -> Thing:
    return {"metadata": {"name": name, "labels": LABELS}}


def _policy(account: str) -> Thing:
    fixed = [field for field in project_fields() if field not in _FREE]
    same = " && ".join(f"object.?spec.?{field} == oldObject.?spec.?{field}" for field in fixed)
    may = (
        f"authorizer.group('{GROUP}').resource('projects').name(request.name).check('{SET_QUOTA}').allowed()"
    )
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": [VERSION],
        "operations": ["UPDATE"],
        "resources": ["projects"],
    }
    message = (
        f"A lead of a project may change {', '.join(f'spec.{field}' for field in _FREE)} alone: "
        f"the rest needs the verb {SET_QUOTA}, which the ClusterRole {ADMIN_ROLE} has."
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "is-a-person", "expression": f"request.userInfo.username != '{account}'"}
        ],
        "validations": [
            {
                "expression": f"{same} || {may}",
                "message": message,
                "reason": "Forbidden",
            }
        ],
    }
