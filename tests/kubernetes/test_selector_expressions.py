"""Expressions of device selectors on the real API server: it and Weir give the same values and errors.

A policy evaluates each expression for a config map of its own, and answers with the value.
"""

import re
from collections.abc import Iterable

import pytest
from tests.kubernetes.selector_expressions import ERRORS, REFUSED, VALUES
from tests.unit.kubernetes.random_claims import API, SELECTORS
from tools.controlplane.api import ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_policies

from weir.kubernetes.claims.cel_evaluator import Selector
from weir.kubernetes.claims.cel_literals import CelSyntaxError
from weir.kubernetes.claims.cel_values import CelError

POLICIES = "admissionregistration.k8s.io/v1"
POLICY = "expressions"
SELECTORS_MOST = 32
"""Selectors of a device class."""


def shown(expression: str) -> str:
    """Return the expression that gives a value as text."""
    return f"'%s'.format([dyn({expression})])"


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


def refused(cluster: Cluster, one: Object, collection: str, part: str) -> set[int]:
    """Return the numbers of the parts of an object for which the API server refuses it."""
    try:
        cluster.api.post(f"{collection}?dryRun=All", one)
    except ApiError as error:
        return {int(number) for number in re.findall(rf"{part}\[([0-9]+)\]", error.message)}
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


def difference(expression: str, answer: str | None) -> str:
    """Return what Weir makes of an expression, if it is something else."""
    literal = "''" if answer is None else "'" + answer.replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        is_equal = Selector(f"{shown(expression)} == {literal}").matches({})
    except CelError as error:
        return "" if answer is None else f"{expression}: {error} instead of {answer}"
    except CelSyntaxError as error:
        return f"{expression}: {error}"
    return "" if is_equal and answer is not None else f"{expression}: a value other than {answer}"


def test_expressions_have_the_values_that_they_have_for_the_api_server(cluster: Cluster) -> None:
    found = answers(cluster, VALUES + ERRORS)
    assert {each: value for each, value in zip(VALUES, found, strict=False) if value is None} == {}
    assert [each for each in found[len(VALUES) :] if each is not None] == []
    differing = [difference(each, answer) for each, answer in zip(VALUES + ERRORS, found, strict=True)]
    assert not any(differing), "\n".join(filter(None, differing))


def test_expressions_that_the_api_server_refuses_have_no_value(cluster: Cluster) -> None:
    path = f"/apis/{POLICIES}/validatingadmissionpolicies"
    assert refused(cluster, policy(REFUSED), path, "validations") == set(range(len(REFUSED)))
    for each in REFUSED:
        with pytest.raises((CelError, CelSyntaxError)):
            Selector(f"{shown(each)} == ''").matches({})


def test_device_classes_take_the_expressions(cluster: Cluster) -> None:
    selectors = [*SELECTORS, *(f"{shown(each)} != ''" for each in VALUES)]
    for start in range(0, len(selectors), SELECTORS_MOST):
        some = selectors[start : start + SELECTORS_MOST]
        spec = {"selectors": [{"cel": {"expression": each}} for each in some]}
        one = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": spec}
        numbers = refused(cluster, one, f"/apis/{API}/deviceclasses", "selectors")
        assert [some[number] for number in numbers] == []
