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

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.claims.extended_resources import EXTENDED_CLAIM
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.crd.without_project import IGNORE, SYSTEM_NAMESPACES, WithoutProject
from weir.kubernetes.install.person_policies import person_policies
from weir.kubernetes.install.policy_expressions import (
    METADATA_WRITERS,
    NOT_A_KUBELET,
    Policy,
    asks_for_gpus,
    binding_object,
    changed_key,
    job_is_same_but_suspended,
    match_rule,
    node_is_same_but_for,
    of_daemonset,
    policy_object,
    quoted,
    quoted_list,
    same_fields,
)
from weir.kubernetes.install.share_policies import share_policies
from weir.kubernetes.translate.annotations import PREFIX, REPORTER, WRITTEN_BY_WEIR
from weir.kubernetes.translate.gpu_sharing import GPU_SHARING


@dataclass(frozen=True, slots=True)
class OptionalPolicies:
    """Stricter rules for pods that ask for GPUs; all are off by default."""

    refuse_node_name: bool = False
    require_scheduler: bool = False
    daemonset_namespaces: tuple[str, ...] = ()  # the only ones with GPU pods of DaemonSets; empty: any
    exempt_namespaces: tuple[str, ...] = ()  # beside kube-system
    without_project: WithoutProject = IGNORE
    require_scheduler_for_claims: bool = False


def account_name(namespace: str) -> str:
    """Return the user name of Weir's service account."""
    return f"system:serviceaccount:{namespace}:{NAME}"


def policies(
    *, namespace: str, scheduler: str, devices: Sequence[str], options: OptionalPolicies
) -> list[Policy]:
    """Return each policy followed by its binding."""
    account = account_name(namespace)
    made = [_written_by_weir(account), *_limits_of(account, namespace), _finalizers_alone(account)]
    made += [_records(account), _events(account), _claims_of_pods(account), *person_policies()]
    made += share_policies(account, scheduler=scheduler, devices=devices, exempt=_exempt(options))
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
            match_rule("", ["CREATE", "UPDATE"], METADATA_WRITERS),
            match_rule("", ["CREATE"], ["pods/binding", "bindings"]),
        ],
        conditions=[("not-weir", f"request.userInfo.username != {quoted(account)}")],
        refused=f"{quoted_list(keys)}.exists(k, {changed_key('k')})",
        variables=[("touched", f"{quoted_list(keys)}.filter(k, {changed_key('k')})")],
        message=f"{' and '.join(keys)} are written by Weir alone: leave them out, or as they are.",
        message_expression=message_expression,
    )


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
    yield policy_object(
        "account-jobs",
        [match_rule("batch", ["UPDATE"], ["jobs"])],
        conditions=[is_weir],
        expression=f"object.spec.?suspend.orValue(false) && {job_is_same_but_suspended()}",
        message="Weir suspends a Job that is idle, and changes nothing else of it.",
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
    """Limit the resource claims that Weir's account creates and deletes to those of extended resources.

    Of other claims it changes the finalizers: a claim that it could annotate, it could delete afterwards.
    """
    claim = "(request.operation == 'DELETE' ? oldObject : object).metadata"
    special = (
        f"{claim}.?annotations[?{quoted(EXTENDED_CLAIM)}].orValue('') == 'true' && "
        f"{claim}.?ownerReferences.orValue([]).exists(owner, owner.apiVersion == 'v1' && owner.kind == 'Pod')"
    )
    return policy_object(
        "account-resource-claims",
        [match_rule("resource.k8s.io", ["CREATE", "DELETE", "UPDATE"], ["resourceclaims"])],
        conditions=[("is-weir", f"request.userInfo.username == {quoted(account)}")],
        expression=f"request.operation == 'UPDATE' ? ({_same_metadata()}) : ({special})",
        message="Weir creates and deletes the claims for extended resources of pods, and no other claims; "
        "of any other claim it changes the finalizers alone.",
    )


def _same_metadata() -> str:
    """Return an expression: the metadata is as before, but for finalizers."""
    unchanged = ("labels", "annotations", "ownerReferences")
    return " && ".join(f"object.metadata.?{each} == oldObject.metadata.?{each}" for each in unchanged)


def _finalizers_alone(account: str) -> Policy:
    """Limit the changes of Weir's account on projects and departments to their finalizers."""
    rule = match_rule(GROUP, ["UPDATE"], ["projects", "departments"]) | {"apiVersions": ["*"]}
    return policy_object(
        "account-queues",
        [rule],
        conditions=[("is-weir", f"request.userInfo.username == {quoted(account)}")],
        expression=f"object.?spec == oldObject.?spec && {_same_metadata()}",
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


def _exempt(options: OptionalPolicies) -> list[str]:
    return sorted({"kube-system", *options.exempt_namespaces})


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
        conditions=[NOT_A_KUBELET],
        variables=[
            ("is_wrong", f"({asked}) && ({wrong_now})"),
            ("was_wrong", f"request.operation == 'UPDATE' && ({asked_before}) && ({wrong_before})"),
        ],
        expression="!variables.is_wrong || variables.was_wrong",
        message=message,
        message_expression=f"request.operation == 'UPDATE' ? {begins} : {message_expression}",
        **more,
    )


def _claims(scheduler: str, daemonset_namespaces: Sequence[str], exempt: Sequence[str]) -> Policy:
    """Refuse pods with resource claims, of any class, that another scheduler would place.

    A policy can't look up the class of a claim. Neither claims nor scheduler of a pod can be changed.
    """
    name = "object.spec.?schedulerName.orValue('')"
    of_listed = f"{of_daemonset('object')} && request.namespace in {quoted_list(daemonset_namespaces)}"
    return policy_object(
        "claim-schedulers",
        [match_rule("", ["CREATE"], ["pods"])],
        conditions=[NOT_A_KUBELET],
        refused=f"object.spec.?resourceClaims.orValue([]).size() > 0 && {name} != {quoted(scheduler)} && "
        f"!({of_listed})",
        message=f"A pod with resource claims is placed by Weir: write schedulerName: {scheduler}.",
        message_expression=f"'spec.schedulerName is ' + {name} + ', but Weir places pods with resource "
        f"claims: write schedulerName: {scheduler}'",
        exempt=exempt,
    )


def _optional(scheduler: str, devices: Sequence[str], options: OptionalPolicies) -> Iterator[Policy]:
    exempt = _exempt(options)

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
    if options.require_scheduler_for_claims:
        yield _claims(scheduler, options.daemonset_namespaces, exempt)
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
