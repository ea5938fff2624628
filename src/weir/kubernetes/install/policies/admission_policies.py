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

from weir.kubernetes.admission.webhook_configuration import NAME, namespaces_but
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.claims.extended_resources import EXTENDED_CLAIM
from weir.kubernetes.crd.notification_objects import PLURAL as NOTIFICATIONS
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.crd.sweep_objects import PLURAL as SWEEPS
from weir.kubernetes.crd.without_project import IGNORE, SYSTEM_NAMESPACES, WithoutProject
from weir.kubernetes.install.policies.amounts import amount_policy
from weir.kubernetes.install.policies.expressions import (
    METADATA_WRITERS,
    NOT_A_KUBELET,
    Policy,
    Refusal,
    Selector,
    asks_for_gpus,
    binding_object,
    changed_key,
    checking_policy,
    job_is_same_but_suspended,
    match_rule,
    node_is_same_but_for,
    of_daemonset,
    quoted,
    quoted_list,
    refusing_policy,
    same_but_suspended,
    same_fields,
)
from weir.kubernetes.install.policies.people import forged_person, person_policies
from weir.kubernetes.install.policies.shares import (
    changed_share,
    share_policies,
    share_without_variables,
)
from weir.kubernetes.translate.annotations import PREFIX, REPORTER, WRITTEN_BY_WEIR
from weir.kubernetes.translate.gpu_sharing import GPU_SHARING
from weir.kubernetes.translate.kinds import load_kinds
from weir.kubernetes.translate.owner_suspensions import RESTARTS


@dataclass(frozen=True, slots=True)
class OptionalPolicies:
    """Stricter rules for pods that ask for GPUs; all are off by default."""

    refuse_node_name: bool = False
    require_scheduler: bool = False
    # Only these namespaces may have DaemonSets with GPUs; empty: any
    daemonset_namespaces: tuple[str, ...] = ()
    exempt_namespaces: tuple[str, ...] = ()  # besides kube-system
    without_project: WithoutProject = IGNORE
    require_scheduler_for_claims: bool = False


def account_name(namespace: str) -> str:
    """Return the user name of Weir's service account."""
    return f"system:serviceaccount:{namespace}:{NAME}"


def policies(
    *,
    namespace: str,
    scheduler: str,
    devices: Sequence[str],
    options: OptionalPolicies,
    managed: ManagedNamespaces = ALL,
) -> list[Policy]:
    """Return each policy followed by its binding."""
    account = account_name(namespace)
    made = [_pods(account, scheduler), *_bindings(account, namespace), *_limits_of(account)]
    made += [_finalizers_alone(account), _records(account), _events(account), _claims_of_pods(account)]
    made.append(amount_policy())
    made += person_policies()
    made += share_policies(account, devices=devices, exempt=_exempt(options))
    made += _unmanaged(scheduler, managed)
    made += _optional(scheduler, devices, options, managed)
    return [manifest for policy in made for manifest in (policy, binding_object(policy))]


# Always


def _pods(account: str, scheduler: str) -> Policy:
    """Return the rules for all pods, each subresource that can change metadata included."""
    return refusing_policy(
        "pods",
        [match_rule("", ["CREATE", "UPDATE"], METADATA_WRITERS)],
        _written_by_weir(account),
        forged_person(),
        share_without_variables(),
        changed_share(account, scheduler),
        _status_of_account(account),
    )


def _bindings(account: str, namespace: str) -> Iterator[Policy]:
    """Return the rules for bindings, whose metadata the API server copies to the pod, and for evictions."""
    in_system = _system_pod_of_account(account, namespace)
    yield refusing_policy(
        "bindings",
        [match_rule("", ["CREATE"], ["pods/binding", "bindings"])],
        _written_by_weir(account),
        forged_person(),
        in_system,
    )
    yield refusing_policy("evictions", [match_rule("", ["CREATE"], ["pods/eviction"])], in_system)


def _written_by_weir(account: str) -> Refusal:
    """Refuse the keys that Weir writes, on pods and on bindings, from every other account."""
    keys = [f"{PREFIX}{word}" for word in WRITTEN_BY_WEIR]
    touched = f"{quoted_list(keys)}.{{}}(k, {changed_key('k')})"
    return Refusal(
        f"!({_is(account)}) && {touched.format('exists')}",
        f"{' and '.join(keys)} are written by Weir alone: leave them out, or as they are.",
        "variables.touched_keys[0] + ' is written by Weir alone, not by ' + request.userInfo.username + "
        "(request.operation == 'CREATE' ? ': leave it out' : ': leave it as it is')",
        [("touched_keys", touched.format("filter"))],
    )


def _system_pod_of_account(account: str, namespace: str) -> Refusal:
    """Refuse bindings and evictions by Weir's own account in system namespaces."""
    exempt = quoted_list([*SYSTEM_NAMESPACES, namespace])
    return Refusal(
        f"{_is(account)} && request.namespace in {exempt}",
        "Weir neither binds nor evicts pods of system namespaces.",
        "'Weir neither binds nor evicts pods of the namespace ' + request.namespace",
    )


def _status_of_account(account: str) -> Refusal:
    """Refuse most changes of a pod's status by Weir's own account."""
    same = same_fields("status", "phase", "podIPs", "containerStatuses", "initContainerStatuses")
    return Refusal(
        f"{_is(account)} && request.?subResource.orValue('') == 'status' && !({same})",
        "Weir writes conditions, the nominated node and the claim for extended resources of a pod, "
        "and nothing else of its status.",
    )


def _is(account: str) -> str:
    """Return an expression: this account makes the request."""
    return f"request.userInfo.username == {quoted(account)}"


def _limits_of(account: str) -> Iterator[Policy]:
    """Limit the rights of Weir's own account that RBAC can't narrow."""
    is_weir = ("is-weir", _is(account))
    yield checking_policy(
        "account-claims",
        [match_rule("", ["UPDATE"], ["persistentvolumeclaims"])],
        conditions=[is_weir],
        expression="object.spec == oldObject.spec",
        message="Weir changes no spec of a claim: it selects the node by an annotation.",
    )
    yield checking_policy(
        "account-nodes",
        [match_rule("", ["UPDATE"], ["nodes"])],
        conditions=[is_weir],
        expression=node_is_same_but_for(GPU_SHARING),
        message=f"Weir changes the label and the taint {GPU_SHARING} of a node, and nothing else of it.",
    )
    yield checking_policy(
        "account-jobs",
        [match_rule("batch", ["UPDATE"], ["jobs"])],
        conditions=[is_weir],
        expression=f"object.spec.?suspend.orValue(false) && {job_is_same_but_suspended()}",
        message="Weir suspends a Job that is idle, and changes nothing else of it.",
    )
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for suspension in load_kinds().suspensions:
        resources.setdefault((suspension.group, suspension.field), []).append(suspension.resource)
    for (group, field), some in resources.items():
        yield checking_policy(
            f"account-{group.replace('.', '-')}",
            [match_rule(group, ["UPDATE"], some) | {"apiVersions": ["*"]}],
            conditions=[is_weir],
            expression=same_but_suspended(field, RESTARTS),
            message="Weir suspends this object and resumes it, and changes nothing else of it.",
        )
    old, new = "oldObject.spec.?claimRef", "object.spec.?claimRef"
    same_claim = " && ".join(f"{old}.?{part} == {new}.?{part}" for part in ("namespace", "name"))
    same = same_fields("spec", "persistentVolumeReclaimPolicy", "storageClassName", "accessModes")
    yield checking_policy(
        "account-volumes",
        [match_rule("", ["UPDATE"], ["persistentvolumes"])],
        conditions=[is_weir],
        expression=f"{same} && (!{old}.hasValue() || ({same_claim}))",
        message="Weir gives volumes without a claim to one, and changes nothing else of a volume.",
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
    return checking_policy(
        "account-resource-claims",
        [match_rule("resource.k8s.io", ["CREATE", "DELETE", "UPDATE"], ["resourceclaims"])],
        conditions=[("is-weir", _is(account))],
        expression=f"request.operation == 'UPDATE' ? ({_same_metadata()}) : ({special})",
        message="Weir creates and deletes the claims for extended resources of pods, and no other claims; "
        "of any other claim it changes the finalizers alone.",
    )


def _same_metadata() -> str:
    """Return an expression: the metadata is as before, but for finalizers."""
    unchanged = ("labels", "annotations", "ownerReferences")
    return " && ".join(f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in unchanged)


def _finalizers_alone(account: str) -> Policy:
    """Limit the changes of Weir's account on projects and departments to their finalizers."""
    rule = match_rule(GROUP, ["UPDATE"], ["projects", "departments"]) | {"apiVersions": ["*"]}
    return checking_policy(
        "account-queues",
        [rule],
        conditions=[("is-weir", _is(account))],
        expression=f"object.?spec == oldObject.?spec && {_same_metadata()}",
        message="Weir changes the finalizers of a project or a department, and nothing else of it.",
    )


def _records(account: str) -> Policy:
    """Refuse Workloads from every account but Weir's: they record the devices of each pod.

    Metadata may change: the garbage collector takes an owner off that is deleted without them.
    """
    same = "object.?spec == oldObject.?spec && object.?status == oldObject.?status"
    return refusing_policy(
        "workloads",
        [match_rule(GROUP, ["CREATE", "UPDATE"], ["workloads"]) | {"apiVersions": ["*"]}],
        Refusal(
            f"!({_is(account)}) && !(request.operation == 'UPDATE' && {same})",
            "Workloads are written by Weir alone: change the object that the Workload's pods belong to.",
        ),
    )


def _events(account: str) -> Policy:
    """Refuse Events in Weir's name from every other account: people, and the history, take them for true."""
    groups = [match_rule(group, ["CREATE", "UPDATE"], ["events"]) for group in ("", "events.k8s.io")]
    name = "object.?reportingController.orValue(object.?reportingComponent.orValue(''))"
    return refusing_policy(
        "events",
        groups,
        Refusal(
            f"!({_is(account)}) && {name} == {quoted(REPORTER)}",
            f"Events of {REPORTER} are written by Weir alone: name another reportingController.",
        ),
    )


# Options


def _unmanaged(scheduler: str, managed: ManagedNamespaces) -> Iterator[Policy]:
    """Return the policy that refuses pods, Jobs and objects for Weir in namespaces that it doesn't manage."""
    if managed.are_all:
        return
    named = " || ".join(
        f"object.?spec.{spec}?schedulerName.orValue('') == {quoted(scheduler)}"
        for spec in ("", "?template.?spec.")
    )
    remedy = "use another namespace, or have this one added to the managed namespaces of the installation"
    own = match_rule(GROUP, ["CREATE"], [SWEEPS, NOTIFICATIONS]) | {"apiVersions": ["*"]}
    yield refusing_policy(
        "managed-namespaces",
        [match_rule("", ["CREATE"], ["pods"]), match_rule("batch", ["CREATE"], ["jobs"]), own],
        Refusal(
            f"request.resource.group == {quoted(GROUP)} || {named}",
            f"Weir doesn't manage this namespace: {remedy}.",
            f"'Weir doesn\\'t manage the namespace ' + request.namespace + ': {remedy}'",
        ),
        where=namespaces_but(managed.names),
    )


def _exempt(options: OptionalPolicies) -> list[str]:
    return sorted({"kube-system", *options.exempt_namespaces})


def _refused_pods(
    devices: Sequence[str], name: str, wrong: str, message: str, message_expression: str, **fields: Any
) -> Policy:
    """Refuse GPU pods with a property, and updates that give it to a pod that hadn't it."""
    asked, asked_before = (asks_for_gpus(variable, devices) for variable in ("object", "oldObject"))
    wrong_now, wrong_before = (wrong.format(pod=variable) for variable in ("object", "oldObject"))
    begins = "'a pod that exists can\\'t begin to ask for GPUs this way: make a new pod'"
    return checking_policy(
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
        **fields,
    )


def _claims(scheduler: str, daemonset_namespaces: Sequence[str], where: Selector) -> Policy:
    """Refuse pods with resource claims, of any class, that another scheduler would place.

    A policy can't look up the class of a claim. Neither claims nor scheduler of a pod can be changed.
    """
    name = "object.spec.?schedulerName.orValue('')"
    of_listed = f"{of_daemonset('object')} && request.namespace in {quoted_list(daemonset_namespaces)}"
    return refusing_policy(
        "claim-schedulers",
        [match_rule("", ["CREATE"], ["pods"])],
        Refusal(
            f"{NOT_A_KUBELET[1]} && object.spec.?resourceClaims.orValue([]).size() > 0 && "
            f"{name} != {quoted(scheduler)} && !({of_listed})",
            f"A pod with resource claims is placed by Weir: write schedulerName: {scheduler}.",
            f"'spec.schedulerName is ' + {name} + ', but Weir places pods with resource "
            f"claims: write schedulerName: {scheduler}'",
        ),
        where=where,
    )


def _optional(
    scheduler: str, devices: Sequence[str], options: OptionalPolicies, managed: ManagedNamespaces
) -> Iterator[Policy]:
    exempt = _exempt(options)
    where = namespaces_but(exempt, managed)
    refuse = partial(_refused_pods, devices)
    if options.refuse_node_name:
        yield refuse(
            "node-names",
            "{pod}.spec.?nodeName.orValue('') != ''",
            "A pod that asks for GPUs can't name its node: leave out spec.nodeName.",
            "'spec.nodeName is ' + object.spec.nodeName + ', but a pod that asks for GPUs can\\'t name its "
            "node: leave it out, and write a nodeSelector if the node matters'",
            where=where,
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
            where=where,
        )
    if options.require_scheduler_for_claims:
        yield _claims(scheduler, options.daemonset_namespaces, where)
    rule = options.without_project
    if rule.action != "ignore":
        yield refuse(
            "projects",
            f"{{pod}}.spec.?schedulerName.orValue('') != {quoted(scheduler)}",
            "GPUs are given through projects alone: add the namespace to spec.namespaces of one.",
            "'GPUs are given through projects alone: add the namespace ' + request.namespace + ' to "
            f"spec.namespaces of one; while Weir is down, write schedulerName: {scheduler}'",
            where=namespaces_but(sorted({*SYSTEM_NAMESPACES, *rule.exempt}), managed)
            | ({"matchLabels": dict(rule.labels)} if rule.labels else {}),
        )
    if options.daemonset_namespaces:
        message_expression = ", ".join(options.daemonset_namespaces)
        yield refuse(
            "daemonsets",
            of_daemonset("{pod}"),
            f"GPU pods of DaemonSets are allowed in {message_expression} alone: use a Deployment or a Job.",
            "'the namespace ' + request.namespace + ' can\\'t have GPU pods of DaemonSets, only "
            f"{message_expression} can: use a Deployment or a Job'",
            where=namespaces_but(sorted({*exempt, *options.daemonset_namespaces}), managed),
        )
