"""The table of selector expressions on the real API server: the unit tests have Weir agree with it.

A policy evaluates each expression for a config map of its own, and answers with the value.
"""

import re
from collections.abc import Iterable

import pytest
from tests.kubernetes.claim_objects import needs_claims
from tests.unit.kubernetes.claims.cel.selector_expressions import ERRORS, REFUSED, VALUES, shown
from tests.unit.kubernetes.claims.random_claims import API
from tools.controlplane.api import ApiError, Object
from tools.controlplane.binaries import chosen_release
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_policies

pytestmark = needs_claims
takes_lists = pytest.mark.skipif(
    chosen_release() < "1.35", reason="An API server takes the functions of lists from Kubernetes 1.35 on."
)

POLICIES = "admissionregistration.k8s.io/v1"
POLICY = "expressions"
SELECTORS_MAX = 32
"""Selectors of a device class."""


def policy(expressions: Iterable[str]) -> Object:
    validations = [
        {"expression": f"object.metadata.name != 'e-{at}'", "messageExpression": f"'=' + {shown(each)} + '='"}
        for at, each in enumerate(expressions)
    ]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    return {
        "apiVersion": POLICIES,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": spec,
    }


def binding(namespace: str) -> Object:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {
        "policyName": POLICY,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    return {
        "apiVersion": POLICIES,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": spec,
    }


def refused(cluster: Cluster, one: Object, collection: str) -> set[int]:
    """Return the numbers of the expressions of an object that the API server can't compile."""
    try:
        cluster.api.post(f"{collection}?dryRun=All", one)
    except ApiError as error:
        assert "Invalid value" in error.message or "too complex" in error.message, error.message
        return {int(number) for number in re.findall(r"\[([0-9]+)\][.a-zA-Z]*: Invalid", error.message)}
    return set()


def answers(cluster: Cluster, expressions: tuple[str, ...]) -> list[str | None]:
    """Return the value of each expression as text; None for one without a value."""
    within = cluster.namespace()
    cluster.api.create(policy(expressions), binding(within))
    wait_for_policies(cluster.api)
    found: list[str | None] = [None] * len(expressions)

    def ask(at: int) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"e-{at}", "namespace": within}}
        with pytest.raises(ApiError) as denied:
            cluster.api.post(f"/api/v1/namespaces/{within}/configmaps?dryRun=All", body)
        answer = denied.value.message.partition("denied request: ")[2]
        if answer.startswith("="):
            found[at] = answer.removeprefix("=").removesuffix("=")
        else:
            assert answer.startswith("failed expression: "), answer

    cluster.api.at_once(ask, range(len(expressions)))
    return found


@takes_lists
def test_expressions_have_the_values_and_errors_of_the_table(cluster: Cluster) -> None:
    found = answers(cluster, (*VALUES, *ERRORS))
    assert dict(zip(VALUES, found, strict=False)) == VALUES
    assert [
        each for each, answer in zip(ERRORS, found[len(VALUES) :], strict=True) if answer is not None
    ] == []


def test_the_refused_expressions_of_the_table_are_refused(cluster: Cluster) -> None:
    path = f"/apis/{POLICIES}/validatingadmissionpolicies"
    assert refused(cluster, policy(REFUSED), path) == set(range(len(REFUSED)))


@takes_lists
def test_device_classes_take_the_expressions(cluster: Cluster) -> None:
    """Compile the expressions as selectors; a few may cost too much for one."""
    selectors = [f"{shown(each)} != ''" for each in VALUES]
    for start in range(0, len(selectors), SELECTORS_MAX):
        some = selectors[start : start + SELECTORS_MAX]
        spec = {"selectors": [{"cel": {"expression": each}} for each in some]}
        one = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": spec}
        numbers = refused(cluster, one, f"/apis/{API}/deviceclasses")
        assert [some[number] for number in numbers] == []
