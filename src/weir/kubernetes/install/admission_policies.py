"""Admission policies of an installation: rules that the API server checks by itself, with Weir up or down.

Weir writes the devices of a pod, and the number of its start, as annotations of the pod's binding. The API
server copies them to the pod. So the policies cover pods, each subresource that can change metadata, and
bindings.
The rules are CEL. Each expression costs little and reads absent fields as absent, so that it can't fail.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.kubernetes.admission.webhook_configuration import NAME, is_device
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.crd.without_project import IGNORE, SYSTEM_NAMESPACES, WithoutProject
from weir.kubernetes.translate.annotations import PREFIX, WRITTEN_BY_WEIR
from weir.kubernetes.translate.gpu_sharing import BY_POLICY, GPU_SHARING, SET_ASIDE, SHARED_NODES_MAP

Policy = dict[str, Any]

_API = "admissionregistration.k8s.io/v1"
_METADATA_WRITERS = ("pods", "pods/status", "pods/ephemeralcontainers", "pods/resize")
_SHARE_KEYS = (
    *(f"{PREFIX}gpu-fraction", f"{PREFIX}gpu-memory", f"{PREFIX}gpu-devices"),
    *("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"),
)
"""Labels and annotations that state the share of a GPU a pod takes."""
_NOT_A_KUBELET = ("not-a-kubelet", "!('system:nodes' in request.userInfo.?groups.orValue([]))")
"""Kubelets report static pods, which have a node from the start and no scheduler."""


@dataclass(frozen=True, slots=True)
class OptionalPolicies:
    """Stricter rules for pods that ask for GPUs; all are off by default."""

    refuse_node_name: bool = False
    require_scheduler: bool = False
    daemonset_namespaces: tuple[str, ...] = ()  # the only ones with GPU pods of DaemonSets; empty: any
    exempt_namespaces: tuple[str, ...] = ()  # beside kube-system
    without_project: WithoutProject = IGNORE


def account_name(namespace: str) -> str:
    """Return the user name of Weir's service account."""
    return f"system:serviceaccount:{namespace}:{NAME}"


def policies(
    *, namespace: str, scheduler: str, devices: Sequence[str], options: OptionalPolicies
) -> list[Policy]:
    """Return each policy followed by its binding."""
    account = account_name(namespace)
    made = [_written_by_weir(account), _fixed_shares(account, scheduler), *_limits_of(account, namespace)]
    made += [_finalizers_alone(account), _records(account), _shared_nodes(devices, options)]
    made += _optional(scheduler, devices, options)
    return [each for policy in made for each in (policy, _binding(policy, namespace))]


# Always


def _written_by_weir(account: str) -> Policy:
    """Refuse the keys that Weir writes, on pods and on bindings, from every other account."""
    keys = [f"{PREFIX}{word}" for word in WRITTEN_BY_WEIR]
    told = (
        "variables.touched[0] + ' is written by Weir alone, not by ' + request.userInfo.username + "
        "(request.operation == 'CREATE' ? ': leave it out' : ': leave it as it is')"
    )
    return _policy(
        "pod-keys",
        [
            _rule("", ["CREATE", "UPDATE"], _METADATA_WRITERS),
            _rule("", ["CREATE"], ["pods/binding", "bindings"]),
        ],
        conditions=[("not-weir", f"request.userInfo.username != {_text(account)}")],
        variables=[("touched", f"{_texts(keys)}.filter(k, {_changed('k')})")],
        expression="variables.touched.size() == 0",
        message=f"{' and '.join(keys)} are written by Weir alone: leave them out, or as they are.",
        told=told,
    )


def _fixed_shares(account: str, scheduler: str) -> Policy:
    """Refuse a change of a pod's share once the pod has a node: the share is what the pod was placed with."""
    return _policy(
        "pod-shares",
        [_rule("", ["UPDATE"], _METADATA_WRITERS)],
        conditions=[
            ("not-weir", f"request.userInfo.username != {_text(account)}"),
            ("placed", "oldObject.spec.?nodeName.orValue('') != ''"),
            ("weirs-pod", f"oldObject.spec.?schedulerName.orValue('') == {_text(scheduler)}"),
        ],
        variables=[("touched", f"{_texts(_SHARE_KEYS)}.filter(k, {_changed('k')})")],
        expression="variables.touched.size() == 0",
        message="The share of a pod that has a node can't be changed: delete the pod and make a new one.",
        told="variables.touched[0] + ' can\\'t be changed once the pod has a node: "
        "delete the pod and make a new one'",
    )


def _shared_nodes(devices: Sequence[str], options: OptionalPolicies) -> Policy:
    """Refuse pods with whole devices that name a node set aside for shares, or tolerate its taint.

    The names of the nodes are the keys of a ConfigMap that Weir writes.
    """
    wrong = (
        "{pod}.spec.?nodeName.orValue('') in variables.nodes || (variables.nodes.size() > 0 && "
        "{pod}.spec.?nodeName.orValue('') == '' && ({tolerates}) && !({avoids}))"
    )
    words = {
        f"{when}_wrong": f"({_asks_for_devices(pod, devices)}) && "
        f"({wrong.format(pod=pod, tolerates=_tolerates_sharing(pod), avoids=_avoids_shared_nodes(pod))})"
        for when, pod in (("is", "object"), ("was", "oldObject"))
    }
    words["was_wrong"] = f"request.operation == 'UPDATE' && ({words['was_wrong']})"
    named = (
        f"'the node ' + object.spec.nodeName + ' is set aside for shares of GPUs ({GPU_SHARING}), "
        "so a pod with whole GPUs can\\'t name it: leave out spec.nodeName'"
    )
    tolerated = (
        f"'nodes are set aside for shares of GPUs, and a pod with whole GPUs must not tolerate their taint "
        f"{GPU_SHARING}: leave the toleration out, or require a node affinity: {GPU_SHARING} DoesNotExist'"
    )
    return _policy(
        "shared-nodes",
        [_rule("", ["CREATE", "UPDATE"], ["pods"])],
        conditions=[_NOT_A_KUBELET],
        variables=[("nodes", "params.?data.orValue({})"), *words.items()],
        expression="!variables.is_wrong || variables.was_wrong",
        message="A pod with whole GPUs can't use a node that is set aside for shares.",
        told=f"object.spec.?nodeName.orValue('') != '' ? {named} : {tolerated}",
        exempt=sorted({"kube-system", *options.exempt_namespaces}),
        params={"apiVersion": "v1", "kind": "ConfigMap"},
    )


def _tolerates_sharing(pod: str) -> str:
    """Return an expression: a toleration covers the taint for shares."""
    everything = "t.?key.orValue('') == '' && t.?operator.orValue('') == 'Exists'"
    return (
        f"{pod}.spec.?tolerations.orValue([]).exists(t, (t.?key.orValue('') == {_text(GPU_SHARING)} || "
        f"({everything})) && t.?effect.orValue('') in ['', 'NoSchedule'])"
    )


def _avoids_shared_nodes(pod: str) -> str:
    """Return an expression: the required node affinity leaves out nodes with the label for shares."""
    terms = (
        f"{pod}.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution"
        ".?nodeSelectorTerms.orValue([])"
    )
    leaves_out = (
        f"e.key == {_text(GPU_SHARING)} && (e.operator == 'DoesNotExist' || "
        f"(e.operator == 'NotIn' && {_texts([SET_ASIDE, BY_POLICY])}.all(v, v in e.?values.orValue([]))))"
    )
    every = f"{terms}.all(t, t.?matchExpressions.orValue([]).exists(e, {leaves_out}))"
    return f"{terms}.size() > 0 && {every}"


def _limits_of(account: str, namespace: str) -> Iterator[Policy]:
    """Limit what Weir's own account can do with rights that RBAC can't narrow."""
    is_weir = ("is-weir", f"request.userInfo.username == {_text(account)}")
    kept = [*SYSTEM_NAMESPACES, namespace]
    yield _policy(
        "account-pods",
        [_rule("", ["CREATE"], ["pods/binding", "pods/eviction", "bindings"])],
        conditions=[is_weir],
        expression=f"!(request.namespace in {_texts(kept)})",
        message="Weir neither binds nor evicts pods of system namespaces.",
        told="'Weir neither binds nor evicts pods of the namespace ' + request.namespace",
    )
    yield _policy(
        "account-claims",
        [_rule("", ["UPDATE"], ["persistentvolumeclaims"])],
        conditions=[is_weir],
        expression="object.spec == oldObject.spec",
        message="Weir changes no spec of a claim: it selects the node by an annotation.",
    )
    yield _policy(
        "account-nodes",
        [_rule("", ["UPDATE"], ["nodes"])],
        conditions=[is_weir],
        expression=_node_is_same_but_for(GPU_SHARING),
        message=f"Weir changes the label and the taint {GPU_SHARING} of a node, and nothing else of it.",
    )
    old, new = "oldObject.spec.?claimRef", "object.spec.?claimRef"
    same_claim = " && ".join(f"{old}.?{part} == {new}.?{part}" for part in ("namespace", "name"))
    same = _same("spec", "persistentVolumeReclaimPolicy", "storageClassName", "accessModes")
    yield _policy(
        "account-volumes",
        [_rule("", ["UPDATE"], ["persistentvolumes"])],
        conditions=[is_weir],
        expression=f"{same} && (!{old}.hasValue() || ({same_claim}))",
        message="Weir gives volumes without a claim to one, and changes nothing else of a volume.",
    )
    yield _policy(
        "account-statuses",
        [_rule("", ["UPDATE"], ["pods/status"])],
        conditions=[is_weir],
        expression=_same("status", "phase", "podIPs", "containerStatuses", "initContainerStatuses"),
        message="Weir writes conditions and the nominated node of a pod, and nothing else of its status.",
    )


def _finalizers_alone(account: str) -> Policy:
    """Limit what Weir's account changes of projects and departments to their finalizers."""
    kept = ("labels", "annotations", "ownerReferences")
    same = " && ".join(f"object.metadata.?{each} == oldObject.metadata.?{each}" for each in kept)
    rule = _rule(GROUP, ["UPDATE"], ["projects", "departments"]) | {"apiVersions": ["*"]}
    return _policy(
        "account-queues",
        [rule],
        conditions=[("is-weir", f"request.userInfo.username == {_text(account)}")],
        expression=f"object.?spec == oldObject.?spec && {same}",
        message="Weir changes the finalizers of a project or a department, and nothing else of it.",
    )


def _records(account: str) -> Policy:
    """Refuse Workloads from every account but Weir's: they record who holds which devices.

    Metadata may change: the garbage collector takes an owner off that is deleted without them.
    """
    same = "object.?spec == oldObject.?spec && object.?status == oldObject.?status"
    return _policy(
        "workloads",
        [_rule(GROUP, ["CREATE", "UPDATE"], ["workloads"]) | {"apiVersions": ["*"]}],
        conditions=[("not-weir", f"request.userInfo.username != {_text(account)}")],
        expression=f"request.operation == 'UPDATE' && {same}",
        message="Workloads are written by Weir alone: change the object that the Workload's pods belong to.",
    )


# Options


def _optional(scheduler: str, devices: Sequence[str], options: OptionalPolicies) -> Iterator[Policy]:
    exempt = ["kube-system", *options.exempt_namespaces]

    def refuse(name: str, wrong: str, message: str, told: str, **more: Any) -> Policy:
        """Refuse GPU pods with this property, and updates that give it to a pod that hadn't it."""
        asked, asked_before = (_asks_for_gpus(each, devices) for each in ("object", "oldObject"))
        wrong_now, wrong_before = (wrong.format(pod=each) for each in ("object", "oldObject"))
        begins = "'a pod that exists can\\'t begin to ask for GPUs this way: make a new pod'"
        return _policy(
            name,
            [_rule("", ["CREATE", "UPDATE"], ["pods", "pods/status"])],
            conditions=[_NOT_A_KUBELET],
            variables=[
                ("is_wrong", f"({asked}) && ({wrong_now})"),
                ("was_wrong", f"request.operation == 'UPDATE' && ({asked_before}) && ({wrong_before})"),
            ],
            expression="!variables.is_wrong || variables.was_wrong",
            message=message,
            told=f"request.operation == 'UPDATE' ? {begins} : {told}",
            **more,
        )

    if options.refuse_node_name:
        yield refuse(
            "node-names",
            "{pod}.spec.?nodeName.orValue('') != ''",
            "A pod that asks for GPUs can't name its node: leave out spec.nodeName.",
            "'spec.nodeName is ' + object.spec.nodeName + ', but a pod that asks for GPUs can\\'t name its "
            "node: leave it out, and write a nodeSelector if the node matters'",
            exempt=exempt,
        )
    if options.require_scheduler:
        listed = _texts(options.daemonset_namespaces)
        yield refuse(
            "scheduler-names",
            f"{{pod}}.spec.?schedulerName.orValue('') != {_text(scheduler)} && "
            f"!({_of_daemonset('{pod}')} && request.namespace in {listed})",
            f"A pod that asks for GPUs is placed by Weir: write schedulerName: {scheduler}.",
            "'spec.schedulerName is ' + object.spec.?schedulerName.orValue('empty') + "
            f"', but Weir places pods that ask for GPUs: write schedulerName: {scheduler}'",
            exempt=exempt,
        )
    rule = options.without_project
    if rule.action != "ignore":
        yield refuse(
            "projects",
            f"{{pod}}.spec.?schedulerName.orValue('') != {_text(scheduler)}",
            "GPUs are given through projects alone: add the namespace to spec.namespaces of one.",
            "'GPUs are given through projects alone: add the namespace ' + request.namespace + ' to "
            f"spec.namespaces of one; while Weir is down, write schedulerName: {scheduler}'",
            exempt=sorted({*SYSTEM_NAMESPACES, *rule.exempt}),
            labels=rule.labels,
        )
    if options.daemonset_namespaces:
        told = ", ".join(options.daemonset_namespaces)
        yield refuse(
            "daemonsets",
            _of_daemonset("{pod}"),
            f"GPU pods of DaemonSets are allowed in {told} alone: use a Deployment or a Job.",
            "'the namespace ' + request.namespace + ' can\\'t have GPU pods of DaemonSets, only "
            f"{told} can: use a Deployment or a Job'",
            exempt=sorted({*exempt, *options.daemonset_namespaces}),
        )


# CEL


def _same(part: str, *fields: str) -> str:
    """Return an expression: these fields are as before."""
    return " && ".join(f"object.{part}.?{field} == oldObject.{part}.?{field}" for field in fields)


def _changed(key: str) -> str:
    """Return an expression: a label or an annotation of this key differs from the one before."""
    return " || ".join(
        f"object.metadata.?{part}[?{key}] != "
        f"(request.operation == 'UPDATE' ? oldObject.metadata.?{part}[?{key}] : optional.none())"
        for part in ("annotations", "labels")
    )


def _asks_for_gpus(pod: str, devices: Sequence[str]) -> str:
    """Return an expression: a container asks for a device, or a label or an annotation states a share."""
    shares = " || ".join(
        f"{_texts(_SHARE_KEYS)}.exists(k, {pod}.metadata.?{part}[?k].hasValue())"
        for part in ("annotations", "labels")
    )
    return f"{_asks_for_devices(pod, devices)} || {shares}"


def _asks_for_devices(pod: str, devices: Sequence[str]) -> str:
    """Return an expression: a container asks for a device."""
    device = " || ".join(is_device(each) for each in devices) or "false"
    return " || ".join(
        f"{pod}.spec.?{part}.orValue([]).exists(c, "
        f"c.?resources.?limits.orValue({{}}).exists(r, {device}) || "
        f"c.?resources.?requests.orValue({{}}).exists(r, {device}))"
        for part in ("containers", "initContainers")
    )


def _node_is_same_but_for(key: str) -> str:
    """Return an expression: a node is as before, but for a label and taints of this key."""
    spec = _same("spec", "podCIDR", "podCIDRs", "providerID", "unschedulable", "configSource")
    metadata = _same("metadata", "annotations", "finalizers", "ownerReferences")
    others = f"?taints.orValue([]).filter(t, t.key != {_text(key)})"
    taints = f"object.spec.{others} == oldObject.spec.{others}"
    labels = " && ".join(
        f"{one}.metadata.?labels.orValue({{}}).all(k, k == {_text(key)} || "
        f"object.metadata.?labels[?k] == oldObject.metadata.?labels[?k])"
        for one in ("object", "oldObject")
    )
    return f"{spec} && {metadata} && {taints} && {labels}"


def _of_daemonset(pod: str) -> str:
    return f"{pod}.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet')"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _texts(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


# Objects


def _policy(
    name: str,
    rules: list[dict[str, Any]],
    *,
    expression: str,
    message: str,
    conditions: Sequence[tuple[str, str]] = (),
    variables: Sequence[tuple[str, str]] = (),
    told: str = "",
    exempt: Sequence[str] = (),
    params: Mapping[str, str] | None = None,
    labels: Sequence[tuple[str, str]] = (),
) -> Policy:
    constraints: dict[str, Any] = {"resourceRules": rules}
    if exempt:
        left_out = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)}
        constraints["namespaceSelector"] = {"matchExpressions": [left_out]}
    if labels:
        constraints.setdefault("namespaceSelector", {})["matchLabels"] = dict(labels)
    validation = {"expression": expression, "message": message, "reason": "Forbidden"}
    if told:
        validation["messageExpression"] = told
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": constraints,
        "matchConditions": [{"name": key, "expression": rule} for key, rule in conditions],
        "variables": [{"name": key, "expression": rule} for key, rule in variables],
        "validations": [validation],
    }
    if params is not None:
        spec["paramKind"] = dict(params)
    return _object("ValidatingAdmissionPolicy", f"{NAME}-{name}", spec)


def _binding(policy: Policy, namespace: str) -> Policy:
    name = policy["metadata"]["name"]
    spec: dict[str, Any] = {"policyName": name, "validationActions": ["Deny", "Audit"]}
    if "paramKind" in policy["spec"]:
        found = {"name": SHARED_NODES_MAP, "namespace": namespace}
        spec["paramRef"] = {**found, "parameterNotFoundAction": "Allow"}
    return _object("ValidatingAdmissionPolicyBinding", name, spec)


def _object(kind: str, name: str, spec: dict[str, Any]) -> Policy:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _rule(group: str, operations: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }
