"""Admission policies for shares of GPUs: their nodes, their sizes, and the variables of their containers."""

from collections.abc import Iterator, Sequence

from weir.kubernetes.admission.shared_devices import SHARE_KEY, VARIABLES, field_path
from weir.kubernetes.admission.webhook_configuration import namespaces_but
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.crd.shared_nodes_spec import KIND as SHARED_NODES
from weir.kubernetes.crd.shared_nodes_spec import PLURAL as SHARED_NODES_PLURAL
from weir.kubernetes.crd.shared_nodes_spec import parameter_kind
from weir.kubernetes.install.policies.expressions import (
    NOT_A_KUBELET,
    SHARE_KEYS,
    Policy,
    Refusal,
    asks_for_devices,
    changed_key,
    checking_policy,
    match_rule,
    quoted,
    quoted_list,
)
from weir.kubernetes.translate.gpu_sharing import BY_POLICY, GPU_SHARING, SET_ASIDE

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_CONTAINERS = "object.spec.?{part}.orValue([])"
_DEBUGGING = "request.?subResource.orValue('') == 'ephemeralcontainers'"


def share_policies(account: str, *, devices: Sequence[str], exempt: Sequence[str]) -> Iterator[Policy]:
    """Return the policies for shared nodes; `exempt` are namespaces whose pods may use any node."""
    yield _shared_node_list(account)
    yield _shared_nodes(devices, exempt)


def _shared_nodes(devices: Sequence[str], exempt: Sequence[str]) -> Policy:
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
    return checking_policy(
        "shared-nodes",
        [match_rule("", ["CREATE", "UPDATE"], ["pods"])],
        conditions=[NOT_A_KUBELET, ("any-shared-node", "params.?spec.?nodes.orValue([]).size() > 0")],
        variables=[("nodes", "params.?spec.?nodes.orValue([])"), *words.items()],
        expression="!variables.is_wrong || variables.was_wrong",
        message="A pod with whole GPUs can't use a node that is set aside for shares.",
        message_expression=f"object.spec.?nodeName.orValue('') != '' ? {named} : {tolerated}",
        where=namespaces_but(exempt),
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


def changed_share(account: str, scheduler: str) -> Refusal:
    """Refuse a change of a pod's share once the pod has a node: the placement depends on it."""
    touched = f"{quoted_list(SHARE_KEYS)}.{{}}(k, {changed_key('k')})"
    return Refusal(
        f"request.operation == 'UPDATE' && request.userInfo.username != {quoted(account)} && "
        f"oldObject.spec.?nodeName.orValue('') != '' && "
        f"oldObject.spec.?schedulerName.orValue('') == {quoted(scheduler)} && {touched.format('exists')}",
        "The share of a pod that has a node can't be changed: delete the pod and make a new one.",
        "variables.touched_shares[0] + ' can\\'t be changed once the pod has a node: "
        "delete the pod and make a new one'",
        [("touched_shares", touched.format("filter"))],
    )


def share_without_variables() -> Refusal:
    """Refuse pods that say that they have the variables of a share, and haven't, or have others of the names.

    Weir takes the annotation for true when it states whether a share is enforced. So no container of such a
    pod is privileged: it would see all devices.
    """
    has_all = " && ".join(
        f"c.?env.orValue([]).exists(e, e.name == {quoted(name)}) && c.?env.orValue([]).all(e, "
        f"e.name != {quoted(name)} || e.?valueFrom.?fieldRef.?fieldPath.orValue('') == "
        f"{quoted(field_path(key))})"
        for name, key in VARIABLES.items()
    )
    states_it = f"{{}}.metadata.?annotations[?{quoted(SHARE_KEY)}].hasValue()"
    may_be_new = f"request.operation == 'CREATE' || {_DEBUGGING} || !{states_it.format('oldObject')}"
    names = ", ".join(VARIABLES)
    every = " && ".join(f"{_CONTAINERS.format(part=part)}.all(c, {has_all})" for part in _CONTAINER_LISTS)
    privileged = " || ".join(
        f"{_CONTAINERS.format(part=part)}.exists(c, c.?securityContext.?privileged.orValue(false))"
        for part in _CONTAINER_LISTS
    )
    stated = f"{SHARE_KEY} is written by Weir\\'s webhook, together with {names}: leave it out"
    lacks = f"each container of a pod with a share has {names}: wait until Weir\\'s webhook adds them"
    unlimited = (
        "a privileged container uses all GPUs of its node, but the memory of this pod is limited "
        f"({SHARE_KEY}): leave out privileged"
    )
    return Refusal(
        f"{states_it.format('object')} && ({may_be_new}) && (({privileged}) || !({every}))",
        "A pod that states the variables of a share has them in each container.",
        f"variables.privileged ? '{unlimited}' : {_DEBUGGING} ? '{lacks}' : '{stated}'",
        [("privileged", privileged)],
    )


def _shared_node_list(account: str) -> Policy:
    """Refuse the list of shared nodes from every account but Weir's: another policy reads it."""
    return checking_policy(
        "shared-node-list",
        [match_rule(GROUP, ["CREATE", "UPDATE"], [SHARED_NODES_PLURAL]) | {"apiVersions": ["*"]}],
        conditions=[("not-weir", f"request.userInfo.username != {quoted(account)}")],
        expression="request.operation == 'UPDATE' && object.?spec == oldObject.?spec",
        message=f"{SHARED_NODES} are written by Weir alone: set a node aside by its label {GPU_SHARING}.",
    )
