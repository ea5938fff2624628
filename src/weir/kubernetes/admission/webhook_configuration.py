"""Webhook configurations: the objects that the API server sends, and its choice without an answer.

`failurePolicy` is Ignore everywhere. A webhook that is away must not keep a cluster from making pods, and
nothing depends on having been asked. The scheduler reads every object for itself. For the same reason only
objects are sent that may be ours: those that name Weir's scheduler, speak of it, or ask for GPUs, and pods
whose owner or claims may ask for GPUs. The latter have webhooks of their own, so that many of them delay no
others. Ephemeral containers are sent if their pod has a share.

The paths of the webhooks aren't in here: they end with a key, and Weir writes them once it has the key.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from weir.kubernetes.admission.gang_members import NEVER_MEMBERS
from weir.kubernetes.admission.reviews import DEFAULT_SCHEDULER, FOREIGN_KEYS
from weir.kubernetes.admission.shared_devices import SHARE_KEY
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.crd.schemas import GROUP, VERSION
from weir.kubernetes.translate.annotations import PREFIX
from weir.kubernetes.translate.device_resources import CLASS_PREFIX, DeviceResources

NAME = "weir"
OWN_PATHS = {
    f"members.{GROUP}": "members",
    f"member-jobs.{GROUP}": "members",
    f"claims.{GROUP}": "claims",
    f"claim-jobs.{GROUP}": "claims",
}
"""First steps of the paths of webhooks for pods and Jobs that are Weir's by their owner or their claims."""
_TIMEOUT_S = 5
_ANNOTATIONS = "object.metadata.?annotations.orValue({})"
_WORKLOADS = (("batch", "jobs"), ("apps", "deployments"), ("apps", "statefulsets"))


def registrations(
    client: dict[str, Any],
    *,
    scheduler: str,
    devices: Sequence[str],
    but_not_in: Sequence[str],
    managed: ManagedNamespaces = ALL,
) -> list[dict[str, Any]]:
    """Return both configurations. `client` is how the API server reaches us: a service, or a url."""
    where = namespaces_but(but_not_in, managed)
    pods = [_rule("", "v1", ["pods"], ["CREATE"])]
    debugging = [_rule("", "v1", ["pods/ephemeralcontainers"], ["UPDATE"])]
    has_a_share = [{"name": "has-a-share", "expression": f"'{SHARE_KEY}' in {_ANNOTATIONS}"}]
    owners = [_rule(group, "v1", [name], ["CREATE", "UPDATE"]) for group, name in _WORKLOADS]
    jobs = [_rule("batch", "v1", ["jobs"], ["CREATE"])]
    is_ours = [_condition(_pod_is_ours("object.spec", "object", scheduler, devices))]
    may_be_members = [
        {"name": "isnt-ours-by-itself", "expression": f"!({is_ours[0]['expression']})"},
        {"name": "has-an-owner", "expression": _has_owner("object")},
        {"name": "has-no-place", "expression": _has_no_place("object.spec")},
    ]
    may_claim_gpus = [may_be_members[0], _has_claims("object.spec"), may_be_members[2]]
    template = "object.spec.template"
    of_ours = [
        _condition(f"{_says('object')} || {_pod_is_ours(f'{template}.spec', template, scheduler, devices)}")
    ]
    may_have_members = [
        {"name": "isnt-ours-by-itself", "expression": f"!({of_ours[0]['expression']})"},
        {"name": "has-an-owner", "expression": _has_owner("object")},
        {"name": "is-retried-by-pod", "expression": f"{template}.spec.restartPolicy == 'Never'"},
    ]
    may_have_claims = [may_have_members[0], _has_claims(f"{template}.spec")]
    hook = partial(_webhook, client)
    queues = [
        _rule(GROUP, VERSION, ["projects"], ["CREATE", "UPDATE"]),
        _rule(GROUP, VERSION, ["departments"], ["CREATE", "UPDATE", "DELETE"]),
        _rule(GROUP, VERSION, ["schedulerconfigs"], ["CREATE", "UPDATE"]),
    ]
    return [
        _configuration(
            "Mutating",
            [
                hook("pods", pods, namespaceSelector=where, matchConditions=is_ours),
                hook("jobs", jobs, namespaceSelector=where, matchConditions=of_ours),
                hook("members", pods, namespaceSelector=where, matchConditions=may_be_members),
                hook("member-jobs", jobs, namespaceSelector=where, matchConditions=may_have_members),
                hook("claims", pods, namespaceSelector=where, matchConditions=may_claim_gpus),
                hook("debugging", debugging, namespaceSelector=where, matchConditions=has_a_share),
                hook("claim-jobs", jobs, namespaceSelector=where, matchConditions=may_have_claims),
            ],
        ),
        _configuration(
            "Validating",
            [
                hook("pods", pods, namespaceSelector=where, matchConditions=is_ours),
                hook("owners", owners, namespaceSelector=where, matchConditions=of_ours),
                hook("queues", queues),
            ],
        ),
    ]


def namespaces_but(exempt: Sequence[str], managed: ManagedNamespaces = ALL) -> dict[str, Any]:
    """Return the selector of the managed namespaces without exempt ones."""
    chosen = [] if managed.are_all else [_by_name("In", managed.names)]
    return {"matchExpressions": [_by_name("NotIn", exempt), *chosen]}


def _by_name(operator: str, names: Sequence[str]) -> dict[str, Any]:
    return {"key": "kubernetes.io/metadata.name", "operator": operator, "values": list(names)}


def _webhook(client: dict[str, Any], name: str, rules: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "name": f"{name}.{GROUP}",
        "clientConfig": client,
        "rules": rules,
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": _TIMEOUT_S,
        **fields,
    }


def _configuration(kind: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": webhooks,
    }


def _rule(group: str, version: str, resources: list[str], operations: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": resources,
        "operations": operations,
        "scope": "*",
    }


def _condition(rule: str) -> dict[str, Any]:
    return {"name": "may-be-ours", "expression": rule}


def _says(subject: str) -> str:
    """Return the CEL condition that a label or annotation of an object concerns Weir."""
    foreign_keys = ", ".join(f"'{word}'" for word in FOREIGN_KEYS)
    key = f"k.startsWith('{PREFIX}') || k in [{foreign_keys}]"
    return " || ".join(
        f"(has({subject}.metadata.{part}) && {subject}.metadata.{part}.exists(k, {key}))"
        for part in ("labels", "annotations")
    )


def _pod_is_ours(spec: str, subject: str, scheduler: str, devices: Sequence[str]) -> str:
    """Return the CEL condition that a pod may be Weir's.

    A pod that asks for devices has them in its limits. Weir knows which device classes have GPUs.
    """
    named = " || ".join(is_device(pattern) for pattern in (*devices, f"{CLASS_PREFIX}*"))
    requests = " || ".join(
        f"(has({spec}.{part}) && {spec}.{part}.exists(c, has(c.resources) && has(c.resources.limits) && "
        f"c.resources.limits.exists(r, {named})))"
        for part in ("containers", "initContainers")
    )
    name = f"(has({spec}.schedulerName) ? {spec}.schedulerName : '{DEFAULT_SCHEDULER}')"
    speaks = f"(has({subject}.metadata) && ({_says(subject)}))"
    return f"{name} == '{scheduler}' || {speaks} || ({name} == '{DEFAULT_SCHEDULER}' && ({requests}))"


def _has_owner(subject: str) -> str:
    """Return True if a pod has a controller whose other pods may ask for more than it does."""
    never = ", ".join(f"'{kind}'" for kind in NEVER_MEMBERS)
    owner = f"has(o.controller) && o.controller && !(o.kind in [{never}])"
    return f"has({subject}.metadata.ownerReferences) && {subject}.metadata.ownerReferences.exists(o, {owner})"


def _has_claims(spec: str) -> dict[str, Any]:
    """Return the match condition that a pod names resource claims, which may be of GPUs."""
    expression = f"has({spec}.resourceClaims) && size({spec}.resourceClaims) > 0"
    return {"name": "has-claims", "expression": expression}


def _has_no_place(spec: str) -> str:
    """Return True if the default scheduler places a pod."""
    default = f"!has({spec}.schedulerName) || {spec}.schedulerName == '{DEFAULT_SCHEDULER}'"
    return f"({default}) && (!has({spec}.nodeName) || {spec}.nodeName == '')"


def is_device(resource: str) -> str:
    """Return an expression: the resource `r` is this one; the name may end in `*`."""
    return f"r.startsWith('{resource[:-1]}')" if resource.endswith("*") else f"r == '{resource}'"


def is_gpu(devices: Sequence[str]) -> str:
    """Return an expression that is true if the resource `r` is a device here, or a usual class of GPUs."""
    of_classes = (f"{CLASS_PREFIX}{name}" for name in DeviceResources(tuple(devices)).classes)
    return " || ".join(is_device(pattern) for pattern in dict.fromkeys((*devices, *of_classes)))
