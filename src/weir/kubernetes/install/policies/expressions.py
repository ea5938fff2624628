"""Policies and bindings as objects, and the expressions that several policies share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.kubernetes.admission.webhook_configuration import NAME, is_gpu
from weir.kubernetes.crd.shared_nodes_spec import NAME as SHARED_NODES_NAME
from weir.kubernetes.translate.annotations import PREFIX

Policy = dict[str, Any]
Selector = dict[str, Any]
"""Selector of namespaces."""

_API = "admissionregistration.k8s.io/v1"


def same_fields(part: str, *fields: str) -> str:
    """Return an expression: these fields are as before."""
    return " && ".join(f"object.{part}.?{field} == oldObject.{part}.?{field}" for field in fields)


def changed_key(key: str) -> str:
    """Return an expression: a label or an annotation of this key differs from the one before."""
    return " || ".join(
        f"object.metadata.?{part}[?{key}] != "
        f"(request.operation == 'UPDATE' ? oldObject.metadata.?{part}[?{key}] : optional.none())"
        for part in ("annotations", "labels")
    )


def asks_for_gpus(pod: str, devices: Sequence[str]) -> str:
    """Return an expression: a container asks for a device, or a label or an annotation states a share."""
    shares = " || ".join(
        f"{quoted_list(SHARE_KEYS)}.exists(k, {pod}.metadata.?{part}[?k].hasValue())"
        for part in ("annotations", "labels")
    )
    return f"{asks_for_devices(pod, devices)} || {shares}"


def asks_for_devices(pod: str, devices: Sequence[str]) -> str:
    """Return an expression: a container asks for a device."""
    device = is_gpu(devices)
    return " || ".join(
        f"{pod}.spec.?{part}.orValue([]).exists(c, "
        f"c.?resources.?limits.orValue({{}}).exists(r, {device}) || "
        f"c.?resources.?requests.orValue({{}}).exists(r, {device}))"
        for part in ("containers", "initContainers")
    )


def node_is_same_but_for(key: str) -> str:
    """Return an expression: a node is as before, but for a label and taints of this key."""
    spec = same_fields("spec", "podCIDR", "podCIDRs", "providerID", "unschedulable", "configSource")
    metadata = same_fields("metadata", "annotations", "finalizers", "ownerReferences")
    others = f"?taints.orValue([]).filter(t, t.key != {quoted(key)})"
    taints = f"object.spec.{others} == oldObject.spec.{others}"
    labels = " && ".join(
        f"{variable}.metadata.?labels.orValue({{}}).all(k, k == {quoted(key)} || "
        f"object.metadata.?labels[?k] == oldObject.metadata.?labels[?k])"
        for variable in ("object", "oldObject")
    )
    return f"{spec} && {metadata} && {taints} && {labels}"


def job_is_same_but_suspended() -> str:
    """Return an expression: a Job is as before, but for its suspension."""
    numbers = ("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
    times = ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "completionMode", "podReplacementPolicy")
    others = ("podFailurePolicy", "successPolicy", "managedBy", "selector", "manualSelector", "template")
    metadata = same_fields("metadata", "labels", "annotations", "finalizers", "ownerReferences")
    return f"{same_fields('spec', *numbers, *times, *others)} && {metadata}"


def same_but_suspended(field: Sequence[str], mark: str) -> str:
    """Return an expression: an object is as before, but for the field that suspends it, and an annotation."""
    metadata = same_fields("metadata", "labels", "finalizers", "ownerReferences")
    notes = ("metadata.?annotations.orValue({})", mark)
    parts = [(f"?{'.?'.join(field[:depth])}.orValue({{}})", field[depth]) for depth in range(1, len(field))]
    return " && ".join([metadata, *(_same_but_for(part, key) for part, key in (notes, *parts))])


def _same_but_for(part: str, key: str) -> str:
    """Return an expression: a mapping of an object is as before, but for one key."""
    return " && ".join(
        f"{one}.{part}.all(k, k == {quoted(key)} || {one}.{part}[?k] == {other}.{part}[?k])"
        for one, other in (("object", "oldObject"), ("oldObject", "object"))
    )


def of_daemonset(pod: str) -> str:
    """Return an expression: a DaemonSet owns the pod."""
    return f"{pod}.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet')"


def quoted(value: str) -> str:
    """Return a text as a CEL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted_list(values: Sequence[str]) -> str:
    """Return texts as a CEL list."""
    return f"[{', '.join(map(quoted, values))}]"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule of a policy: its expression is true of the requests it refuses, and its message answers them.

    `message_expression` may use the variables. It is evaluated for refused requests alone.
    """

    refused: str
    message: str
    message_expression: str = ""
    variables: Sequence[tuple[str, str]] = ()


def refusing_policy(
    name: str, rules: list[dict[str, Any]], *refusals: Refusal, where: Selector | None = None
) -> Policy:
    """Return a policy of several rules, each of which refuses requests.

    The API server converts the object and the old object once for the conditions of a policy, and again for
    its validations. So all rules about the same resources are one policy with one condition: a request that
    is allowed costs one conversion of each.
    """
    any_refused = " || ".join(f"({refusal.refused})" for refusal in refusals)
    return _policy_object(
        name,
        _constraints(rules, where),
        conditions=[("refused", any_refused)],
        variables=[variable for refusal in refusals for variable in refusal.variables],
        validations=[
            _validation("false" if len(refusals) == 1 else f"!({refusal.refused})", refusal)
            for refusal in refusals
        ],
    )


def _validation(expression: str, refusal: Refusal) -> dict[str, Any]:
    validation = {"expression": expression, "message": refusal.message, "reason": "Forbidden"}
    if refusal.message_expression:
        validation["messageExpression"] = refusal.message_expression
    return validation


def checking_policy(
    name: str,
    rules: list[dict[str, Any]],
    *,
    expression: str,
    message: str,
    message_expression: str = "",
    conditions: Sequence[tuple[str, str]] = (),
    variables: Sequence[tuple[str, str]] = (),
    where: Selector | None = None,
    params: Mapping[str, str] | None = None,
) -> Policy:
    """Return a policy by which an expression must hold for each object that meets its conditions.

    A policy with parameters allows everything while the API server doesn't know their kind. It would refuse
    every pod of the cluster otherwise, those without GPUs too.
    """
    validation = _validation(expression, Refusal("", message, message_expression))
    return _policy_object(
        name,
        _constraints(rules, where),
        conditions=conditions,
        variables=variables,
        validations=[validation],
        params=params,
    )


def _constraints(rules: list[dict[str, Any]], where: Selector | None) -> dict[str, Any]:
    constraints: dict[str, Any] = {"resourceRules": rules}
    return constraints if where is None else {**constraints, "namespaceSelector": where}


def _policy_object(
    name: str,
    constraints: dict[str, Any],
    *,
    conditions: Sequence[tuple[str, str]],
    variables: Sequence[tuple[str, str]],
    validations: list[dict[str, Any]],
    params: Mapping[str, str] | None = None,
) -> Policy:
    spec: dict[str, Any] = {
        "failurePolicy": "Fail" if params is None else "Ignore",
        "matchConstraints": constraints,
        "matchConditions": [{"name": key, "expression": rule} for key, rule in conditions],
        "variables": [{"name": key, "expression": rule} for key, rule in variables],
        "validations": validations,
    }
    if params is not None:
        spec["paramKind"] = dict(params)
    return _api_object("ValidatingAdmissionPolicy", f"{NAME}-{name}", spec)


def binding_object(policy: Policy) -> Policy:
    """Return the binding that enforces a policy."""
    name = policy["metadata"]["name"]
    spec: dict[str, Any] = {"policyName": name, "validationActions": ["Deny", "Audit"]}
    if "paramKind" in policy["spec"]:
        spec["paramRef"] = {"name": SHARED_NODES_NAME, "parameterNotFoundAction": "Allow"}
    return _api_object("ValidatingAdmissionPolicyBinding", name, spec)


def _api_object(kind: str, name: str, spec: dict[str, Any]) -> Policy:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def match_rule(group: str, operations: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    """Return the rule that matches these operations on these resources."""
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }


SHARE_KEYS = (
    *(f"{PREFIX}gpu-fraction", f"{PREFIX}gpu-memory", f"{PREFIX}gpu-devices"),
    *("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"),
)
"""Labels and annotations that state the share of a GPU a pod takes."""
METADATA_WRITERS = ("pods", "pods/status", "pods/ephemeralcontainers", "pods/resize")
"""Resources by which the metadata of a pod can be written."""
NOT_A_KUBELET = ("not-a-kubelet", "!('system:nodes' in request.userInfo.?groups.orValue([]))")
"""Kubelets report static pods, which have a node from the start and no scheduler."""
