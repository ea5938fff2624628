"""Waiting for the API server to enforce what was written to it: admission policies, webhooks and rights.

The API server learns policies and their bindings by a watch each, and takes both lists over together about
once a second. Mutating and validating webhooks come by a watch each, and rights by four: of roles, of cluster
roles, and of the bindings of both. A watch keeps the order of the writes. So an object that is written last,
and whose effect is seen, shows that the API server knows all earlier ones.
"""

import itertools
import time
from collections.abc import Callable

from tools.controlplane.api import Api, ApiError, Object, collection

_LIMIT_S = 120.0
_PAUSE_S = 0.08
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io/v1"
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
_NAMESPACE = "default"
_numbers = itertools.count(1)


def wait_for_policies(api: Api) -> None:
    """Wait until the policies written so far are enforced, and those deleted so far aren't.

    Raises:
        TimeoutError: they aren't after two minutes.
    """
    name = _new_name()
    refusal = {"expression": f"object.metadata.name != '{name}'", "message": name}
    policy = _policy_object("", name, matchConstraints={"resourceRules": [_RULE]}, validations=[refusal])
    binding = _policy_object("Binding", name, policyName=name, validationActions=["Deny"])
    _wait_with(api, [policy, binding], lambda: name in _refusal(api, _config_map(name)), "policies")


def wait_for_webhooks(api: Api) -> None:
    """Wait until the webhooks written so far are called, and those deleted so far aren't.

    Raises:
        TimeoutError: they aren't after two minutes.
    """
    name = _new_name()
    kinds = ("Mutating", "Validating")

    def is_called() -> bool:
        return all(name in _refusal(api, _config_map(name, {name: kind})) for kind in kinds)

    _wait_with(api, [_dead_webhook(kind, name) for kind in kinds], is_called, "webhooks")


def wait_for_rights(api: Api) -> None:
    """Wait until the roles written so far, and their bindings, are enforced.

    Raises:
        TimeoutError: they aren't after two minutes.
    """
    name = _new_name()
    objects = [
        review
        for prefix, namespace in (("Cluster", None), ("", _NAMESPACE))
        for review in _granted(prefix, name, namespace)
    ]

    def is_granted() -> bool:
        return _may(api, name, f"Cluster{name}", None) and _may(api, name, name, _NAMESPACE)

    _wait_with(api, objects, is_granted, "rights")


def _wait_with(api: Api, objects: list[Object], see: Callable[[], bool], subject: str) -> None:
    """Write objects, wait until their effect is seen, and delete them."""
    try:
        api.create(*objects)
        end = time.monotonic() + _LIMIT_S
        while not see():
            if time.monotonic() > end:
                raise TimeoutError(f"the API server doesn't enforce the {subject} after {_LIMIT_S:g} s")
            time.sleep(_PAUSE_S)
    finally:
        for manifest in reversed(objects):
            api.delete(f"{collection(manifest)}/{manifest['metadata']['name']}")


def _new_name() -> str:
    return f"enforced-{next(_numbers)}-{time.monotonic_ns()}"


def _config_map(name: str, labels: dict[str, str] | None = None) -> Object:
    metadata = {"name": name, "namespace": _NAMESPACE, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _refusal(api: Api, one: Object) -> str:
    """Return what is said of an object that would be created; empty if it passes."""
    try:
        api.post(f"{collection(one)}?dryRun=All", one)
    except ApiError as why:
        return why.message
    return ""


def _dead_webhook(kind: str, name: str) -> Object:
    """Return a webhook of an address that nothing listens on, for objects with a label of its name."""
    webhook = {
        "name": f"{name}.weir.dev",
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "rules": [_RULE],
        "objectSelector": {"matchLabels": {name: kind}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = f"{kind}WebhookConfiguration"
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}, "webhooks": [webhook]}


def _policy_object(suffix: str, name: str, **spec: object) -> Object:
    kind = f"ValidatingAdmissionPolicy{suffix}"
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _granted(prefix: str, name: str, namespace: str | None) -> list[Object]:
    """Return a role that allows a verb of its own, and its binding to a user of that name."""
    metadata: Object = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    made: Object = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": [f"{prefix}{name}"]}
    subject = {"apiGroup": _RBAC, "kind": "User", "name": name}
    reference = {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": name}
    return [
        {**made, "kind": f"{prefix}Role", "rules": [rule]},
        {**made, "kind": f"{prefix}RoleBinding", "roleRef": reference, "subjects": [subject]},
    ]


def _may(api: Api, user: str, verb: str, namespace: str | None) -> bool:
    attributes: Object = {"verb": verb, "resource": "pods", "version": "v1"}
    if namespace is not None:
        attributes["namespace"] = namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
