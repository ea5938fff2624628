"""Admission policies of an installation: rules that the API server checks by itself, with Weir up or down.

Weir writes the devices of a pod, and the number of its start, as annotations of the pod's binding. The API
server copies them to the pod. So the policies cover pods, each subresource that can change metadata, and
bindings.
The rules are CEL. Each expression costs little and reads absent fields as absent, so that it can't fail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from weir.kubernetes.admission.shared_devices import VARIABLES, field_path
from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.claims.extended_resources import EXTENDED_CLAIM
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.crd.shared_nodes_spec import KIND as SHARED_NODES
from weir.kubernetes.crd.shared_nodes_spec import PLURAL as SHARED_NODES_PLURAL
from weir.kubernetes.crd.shared_nodes_spec import parameter_kind
from weir.kubernetes.crd.without_project import IGNORE, SYSTEM_NAMESPACES, WithoutProject
from weir.kubernetes.install.person_policies import person_policies
from weir.kubernetes.install.policy_expressions import (
    SHARE_KEYS,
    Policy,
    asks_for_devices,
    asks_for_gpus,
    binding_object,
    changed_key,
    match_rule,
    node_is_same_but_for,
    of_daemonset,
    policy_object,
    quoted,
    quoted_list,
    same_fields,
)
from weir.kubernetes.translate.annotations import PREFIX, REPORTER, SHARE_VARIABLES, WRITTEN_BY_WEIR
from weir.kubernetes.translate.gpu_sharing import BY_POLICY, GPU_SHARING, SET_ASIDE

_METADATA_WRITERS = ("pods", "pods/status", "pods/ephemeralcontainers", "pods/resize")
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
    made += [_share_variables(), _claims_of_pods(account), _finalizers_alone(account)]
    made += [_records(account), _shared_node_list(account)]
    made += [_events(account), *person_policies(), _shared_nodes(devices, options)]
    made += _optional(scheduler, devices, options)
    return [each for policy in made for each in (policy, binding_object(policy))]


# Always


def _written_by_weir(account: str) -> Policy:
    """Refuse the keys that Weir writes, on pods and on bindings, from every other account."""
    keys = [f"{PREFIX}{word}" for word in WRITTEN_BY_WEIR]
    message_expression = (
        "variables.touched[0] + ' is written by Weir alone, not by ' + request.userInfo.username + "
        "(request.operation == 'CREATE' ? ': leave it out' : ': leave it as it is')"
    )
    return policy_object(
        "pod-keys",
        [
            match_rule("", ["CREATE", "UPDATE"], _METADATA_WRITERS),
            match_rule("", ["CREATE"], ["pods/binding", "bindings"]),
        ],
        conditions=[("not-weir", f"request.userInfo.username != {quoted(account)}")],
        refused=f"{quoted_list(keys)}.exists(k, {changed_key('k')})",
        variables=[("touched", f"{quoted_list(keys)}.filter(k, {changed_key('k')})")],
        message=f"{' and '.join(keys)} are written by Weir alone: leave them out, or as they are.",
        message_expression=message_expression,
    )


def _fixed_shares(account: str, scheduler: str) -> Policy:
    """Refuse a change of a pod's share once the pod has a node: the placement depends on it."""
    return policy_object(
        "pod-shares",
        [match_rule("", ["UPDATE"], _METADATA_WRITERS)],
        conditions=[
            ("not-weir", f"request.userInfo.username != {quoted(account)}"),
            ("placed", "oldObject.spec.?nodeName.orValue('') != ''"),
            ("weirs-pod", f"oldObject.spec.?schedulerName.orValue('') == {quoted(scheduler)}"),
        ],
        refused=f"{quoted_list(SHARE_KEYS)}.exists(k, {changed_key('k')})",
        variables=[("touched", f"{quoted_list(SHARE_KEYS)}.filter(k, {changed_key('k')})")],
        message="The share of a pod that has a node can't be changed: delete the pod and make a new one.",
        message_expression="variables.touched[0] + ' can\\'t be changed once the pod has a node: "
        "delete the pod and make a new one'",
    )


def _share_variables() -> Policy:
    """Refuse pods that say that they have the variables of a share, and haven't, or have others of the names.

    Weir takes the annotation for true when it states whether a share is enforced.
    """
    has_all = " && ".join(
        f"c.?env.orValue([]).exists(e, e.name == {quoted(name)}) && c.?env.orValue([]).all(e, "
        f"e.name != {quoted(name)} || e.?valueFrom.?fieldRef.?fieldPath.orValue('') == "
        f"{quoted(field_path(key))})"
        for name, key in VARIABLES.items()
    )
    key = f"{PREFIX}{SHARE_VARIABLES}"
    return policy_object(
        "share-variables",
        [match_rule("", ["CREATE", "UPDATE"], _METADATA_WRITERS)],
        conditions=[("states-variables", f"object.metadata.?annotations[?{quoted(key)}].hasValue()")],
        expression=" && ".join(
            f"object.spec.?{part}.orValue([]).all(c, {has_all})" for part in ("containers", "initContainers")
        ),
        message=f"{key} is written by Weir's webhook, together with {', '.join(VARIABLES)}: leave it out.",
    )


def _shared_nodes(devices: Sequence[str], options: OptionalPolicies) -> Policy:
    """Refuse pods with whole devices that name a node set aside for shares, or tolerate its taint.

    The names of the nodes are in an object that Weir writes.
    """
    wrong = (
        "{pod}.spec.?nodeName.orValue('') in variables.nodes || (variables.nodes.size() > 0 && "
        "{pod}.spec.?nodeName.orValue('') == '' && ({tolerates}) && !({avoids}))"
    )
    words = {
        f"{when}_wrong": f"({asks_for_devices(pod, devices)}) && "
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
    return policy_object(
        "shared-nodes",
        [match_rule("", ["CREATE", "UPDATE"], ["pods"])],
        conditions=[_NOT_A_KUBELET, ("any-shared-node", "params.?spec.?nodes.orValue([]).size() > 0")],
        variables=[("nodes", "params.?spec.?nodes.orValue([])"), *words.items()],
        expression="!variables.is_wrong || variables.was_wrong",
        message="A pod with whole GPUs can't use a node that is set aside for shares.",
        message_expression=f"object.spec.?nodeName.orValue('') != '' ? {named} : {tolerated}",
        exempt=sorted({"kube-system", *options.exempt_namespaces}),
        params=parameter_kind(),
    )


def _tolerates_sharing(pod: str) -> str:
    """Return an expression: a toleration covers the taint for shares."""
    everything = "t.?key.orValue('') == '' && t.?operator.orValue('') == 'Exists'"
    return (
        f"{pod}.spec.?tolerations.orValue([]).exists(t, (t.?key.orValue('') == {quoted(GPU_SHARING)} || "
        f"({everything})) && t.?effect.orValue('') in ['', 'NoSchedule'])"
    )


def _avoids_shared_nodes(pod: str) -> str:
    """Return an expression: the required node affinity leaves out nodes with the label for shares."""
    terms = (
        f"{pod}.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution"
        ".?nodeSelectorTerms.orValue([])"
    )
    leaves_out = (
        f"e.key == {quoted(GPU_SHARING)} && (e.operator == 'DoesNotExist' || "
        f"(e.operator == 'NotIn' && {quoted_list([SET_ASIDE, BY_POLICY])}"
        ".all(v, v in e.?values.orValue([]))))"
    )
    every = f"{terms}.all(t, t.?matchExpressions.orValue([]).exists(e, {leaves_out}))"
    return f"{terms}.size() > 0 && {every}"


def _limits_of(account: str, namespace: str) -> Iterator[Policy]:
    """Limit the rights of Weir's own account that RBAC can't narrow."""
    is_weir = ("is-weir", f"request.userInfo.username == {quoted(account)}")
    exempt = [*SYSTEM_NAMESPACES, namespace]
    yield policy_object(
        "account-pods",
        [match_rule("", ["CREATE"], ["pods/binding", "pods/eviction", "bindings"])],
        conditions=[is_weir],
        refused=f"request.namespace in {quoted_list(exempt)}",
        message="Weir neither binds nor evicts pods of system namespaces.",
        message_expression="'Weir neither binds nor evicts pods of the namespace ' + request.namespace",
    )
    yield policy_object(
        "account-claims",
        [match_rule("", ["UPDATE"], ["persistentvolumeclaims"])],
        conditions=[is_weir],
        expression="object.spec == oldObject.spec",
        message="Weir changes no spec of a claim: it selects the node by an annotation.",
    )
    yield policy_object(
        "account-nodes",
        [match_rule("", ["UPDATE"], ["nodes"])],
        conditions=[is_weir],
        expression=node_is_same_but_for(GPU_SHARING),
        message=f"Weir changes the label and the taint {GPU_SHARING} of a node, and nothing else of it.",
    )
    old, new = "oldObject.spec.?claimRef", "object.spec.?claimRef"
    same_claim = " && ".join(f"{old}.?{part} == {new}.?{part}" for part in ("namespace", "name"))
    same = same_fields("spec", "persistentVolumeReclaimPolicy", "storageClassName", "accessModes")
    yield policy_object(
        "account-volumes",
        [match_rule("", ["UPDATE"], ["persistentvolumes"])],
        conditions=[is_weir],
        expression=f"{same} && (!{old}.hasValue() || ({same_claim}))",
        message="Weir gives volumes without a claim to one, and changes nothing else of a volume.",
    )
    same_status = same_fields("status", "phase", "podIPs", "containerStatuses", "initContainerStatuses")
    yield policy_object(
        "account-statuses",
        [match_rule("", ["UPDATE"], ["pods/status"])],
        conditions=[is_weir],
        refused=f"!({same_status})",
        message="Weir writes conditions, the nominated node and the claim for extended resources of a pod, "
        "and nothing else of its status.",
    )


def _claims_of_pods(account: str) -> Policy:
    """Limit the resource claims that Weir's account creates and deletes to those of extended resources."""
    claim = "(request.operation == 'DELETE' ? oldObject : object).metadata"
    return policy_object(
        "account-resource-claims",
        [match_rule("resource.k8s.io", ["CREATE", "DELETE"], ["resourceclaims"])],
        conditions=[("is-weir", f"request.userInfo.username == {quoted(account)}")],
        expression=f"{claim}.?annotations[?{quoted(EXTENDED_CLAIM)}].orValue('') == 'true' && "
        f"{claim}.?ownerReferences.orValue([]).exists(owner, owner.kind == 'Pod')",
        message="Weir creates and deletes the claims for extended resources of pods, and no other claims.",
    )


def _finalizers_alone(account: str) -> Policy:
    """Limit the changes of Weir's account on projects and departments to their finalizers."""
    unchanged = ("labels", "annotations", "ownerReferences")
    same = " && ".join(f"object.metadata.?{each} == oldObject.metadata.?{each}" for each in unchanged)
    rule = match_rule(GROUP, ["UPDATE"], ["projects", "departments"]) | {"apiVersions": ["*"]}
    return policy_object(
        "account-queues",
        [rule],
        conditions=[("is-weir", f"request.userInfo.username == {quoted(account)}")],
        expression=f"object.?spec == oldObject.?spec && {same}",
        message="Weir changes the finalizers of a project or a department, and nothing else of it.",
    )


def _records(account: str) -> Policy:
    """Refuse Workloads from every account but Weir's: they record the devices of each pod.

    Metadata may change: the garbage collector takes an owner off that is deleted without them.
    """
    same = "object.?spec == oldObject.?spec && object.?status == oldObject.?status"
    return policy_object(
        "workloads",
        [match_rule(GROUP, ["CREATE", "UPDATE"], ["workloads"]) | {"apiVersions": ["*"]}],
        conditions=[("not-weir", f"request.userInfo.username != {quoted(account)}")],
        refused=f"!(request.operation == 'UPDATE' && {same})",
        message="Workloads are written by Weir alone: change the object that the Workload's pods belong to.",
    )


def _shared_node_list(account: str) -> Policy:
    """Refuse the list of shared nodes from every account but Weir's: another policy reads it."""
    return policy_object(
        "shared-node-list",
        [match_rule(GROUP, ["CREATE", "UPDATE"], [SHARED_NODES_PLURAL]) | {"apiVersions": ["*"]}],
        conditions=[("not-weir", f"request.userInfo.username != {quoted(account)}")],
        expression="request.operation == 'UPDATE' && object.?spec == oldObject.?spec",
        message=f"{SHARED_NODES} are written by Weir alone: set a node aside by its label {GPU_SHARING}.",
    )


def _events(account: str) -> Policy:
    """Refuse Events in Weir's name from every other account: people, and the history, take them for true."""
    groups = [match_rule(group, ["CREATE", "UPDATE"], ["events"]) for group in ("", "events.k8s.io")]
    name = "object.?reportingController.orValue(object.?reportingComponent.orValue(''))"
    return policy_object(
        "events",
        groups,
        conditions=[("not-weir", f"request.userInfo.username != {quoted(account)}")],
        refused=f"{name} == {quoted(REPORTER)}",
        message=f"Events of {REPORTER} are written by Weir alone: name another reportingController.",
    )


# Options


def _refused_pods(
    devices: Sequence[str], name: str, wrong: str, message: str, message_expression: str, **more: Any
) -> Policy:
    """Refuse GPU pods with a property, and updates that give it to a pod that hadn't it."""
    asked, asked_before = (asks_for_gpus(each, devices) for each in ("object", "oldObject"))
    wrong_now, wrong_before = (wrong.format(pod=each) for each in ("object", "oldObject"))
    begins = "'a pod that exists can\\'t begin to ask for GPUs this way: make a new pod'"
    return policy_object(
        name,
        [match_rule("", ["CREATE", "UPDATE"], ["pods", "pods/status"])],
        conditions=[_NOT_A_KUBELET],
        variables=[
            ("is_wrong", f"({asked}) && ({wrong_now})"),
            ("was_wrong", f"request.operation == 'UPDATE' && ({asked_before}) && ({wrong_before})"),
        ],
        expression="!variables.is_wrong || variables.was_wrong",
        message=message,
        message_expression=f"request.operation == 'UPDATE' ? {begins} : {message_expression}",
        **more,
    )


def _optional(scheduler: str, devices: Sequence[str], options: OptionalPolicies) -> Iterator[Policy]:
    exempt = sorted({"kube-system", *options.exempt_namespaces})

    refuse = partial(_refused_pods, devices)
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
        listed = quoted_list(options.daemonset_namespaces)
        yield refuse(
            "scheduler-names",
            f"{{pod}}.spec.?schedulerName.orValue('') != {quoted(scheduler)} && "
            f"!({of_daemonset('{pod}')} && request.namespace in {listed})",
            f"A pod that asks for GPUs is placed by Weir: write schedulerName: {scheduler}.",
            "'spec.schedulerName is ' + object.spec.?schedulerName.orValue('empty') + "
            f"', but Weir places pods that ask for GPUs: write schedulerName: {scheduler}'",
            exempt=exempt,
        )
    rule = options.without_project
    if rule.action != "ignore":
        yield refuse(
            "projects",
            f"{{pod}}.spec.?schedulerName.orValue('') != {quoted(scheduler)}",
            "GPUs are given through projects alone: add the namespace to spec.namespaces of one.",
            "'GPUs are given through projects alone: add the namespace ' + request.namespace + ' to "
            f"spec.namespaces of one; while Weir is down, write schedulerName: {scheduler}'",
            exempt=sorted({*SYSTEM_NAMESPACES, *rule.exempt}),
            labels=rule.labels,
        )
    if options.daemonset_namespaces:
        message_expression = ", ".join(options.daemonset_namespaces)
        yield refuse(
            "daemonsets",
            of_daemonset("{pod}"),
            f"GPU pods of DaemonSets are allowed in {message_expression} alone: use a Deployment or a Job.",
            "'the namespace ' + request.namespace + ' can\\'t have GPU pods of DaemonSets, only "
            f"{message_expression} can: use a Deployment or a Job'",
            exempt=sorted({*exempt, *options.daemonset_namespaces}),
        )
