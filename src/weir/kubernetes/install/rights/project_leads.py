"""Rights of people on projects: administrators change everything, leads a part of it.

RBAC can limit a lead to projects by name, but not to fields. So an admission policy limits leads: without the
verb `set-quota` a person may change the times of a project and nothing else of its spec. Administrators of
the cluster have all verbs, and this one too.
"""

from collections.abc import Iterator

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.crd.definitions import project_fields
from weir.kubernetes.crd.schemas import GROUP, VERSION
from weir.kubernetes.install.parts import LABELS, Manifest
from weir.kubernetes.install.policies.expressions import (
    binding_object,
    checking_policy,
    match_rule,
    quoted,
)
from weir.kubernetes.install.rights.roles import cluster_role, may
from weir.kubernetes.query.aggregation.discovery import GROUP as QUERY_GROUP
from weir.kubernetes.query.aggregation.discovery import PREVIEWS, read_rules

SET_QUOTA = "set-quota"
ADMIN_ROLE = f"{NAME}-project-admin"
_FREE = ("times",)
"""Fields of a project's spec that a lead may change."""


def people(own_kinds: tuple[str, ...], account: str) -> Iterator[Manifest]:
    """Yield the role of administrators of projects, and the policy that limits leads.

    Weir's own account is left to a policy of its own, which lets it change less.
    """
    yield cluster_role(
        ADMIN_ROLE,
        may(f"create update patch delete {SET_QUOTA}", GROUP, "projects", "departments", "topologies"),
        may("get list watch", GROUP, *own_kinds),
        *read_rules(),
        may("create", QUERY_GROUP, *(preview.name for preview in PREVIEWS.values())),
    )
    fixed = [field for field in project_fields() if field not in _FREE]
    same = " && ".join(f"object.?spec.?{field} == oldObject.?spec.?{field}" for field in fixed)
    administers = (
        f"authorizer.group('{GROUP}').resource('projects').name(request.name).check('{SET_QUOTA}').allowed()"
    )
    policy = checking_policy(
        "project-leads",
        [match_rule(GROUP, ["UPDATE"], ["projects"]) | {"apiVersions": [VERSION]}],
        conditions=[("is-a-person", f"request.userInfo.username != {quoted(account)}")],
        expression=f"{same} || {administers}",
        message=f"A lead of a project may change {', '.join(f'spec.{field}' for field in _FREE)} alone: "
        f"the rest needs the verb {SET_QUOTA}, which the ClusterRole {ADMIN_ROLE} has.",
    )
    for manifest in (policy, binding_object(policy)):
        yield {**manifest, "metadata": {**manifest["metadata"], "labels": LABELS}}
