"""The rights of Weir's account in a cluster."""

from typing import Any

import pytest
import yaml

from weir.cli.main import main
from weir.kubernetes.install.manifests import Installation, manifests


def writes_own_kinds(rule: dict[str, Any]) -> bool:
    """Return True if a rule lets its subject change objects of Weir's kinds, or their status."""
    groups = {"weir.dev", "*"} & {*rule.get("apiGroups", ())}
    return bool(groups) and not {*rule["verbs"]} <= {"get", "list", "watch"}


def test_weir_may_read_no_secret_of_people_until_the_role_of_one_name_is_bound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def secret_rules(*options: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        assert main(["kube", "manifests", *options]) == 0
        things = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each]
        bound = {each["roleRef"]["name"] for each in things if each["kind"] == "ClusterRoleBinding"}
        roles = [
            each for each in things if each["kind"] == "ClusterRole" and each["metadata"]["name"] in bound
        ]
        found = [rule for role in roles for rule in role.get("rules", ())]
        return [rule for rule in found if "secrets" in rule.get("resources", ())], things

    assert secret_rules()[0] == []
    by_name = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "verbs": ["get"],
        "resourceNames": ["weir-notifications"],
    }
    assert secret_rules("--notifications-secret", "mail")[0] == [], "the settings alone give no right"
    found, things = secret_rules("--notifications-secret", "mail", "--notifications-everywhere")
    assert found == [by_name]
    (deployment,) = (each for each in things if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    words = container["args"]
    assert words[words.index("--notifications") + 1] == "/etc/weir/notifications/notifications.yaml"
    (policy,) = (
        each for each in things if each["metadata"]["name"] == "weir-notifications" and "spec" in each
    )
    ports = {each["port"] for rule in policy["spec"]["egress"] for each in rule["ports"]}
    assert ports == {53, 5353}, "name servers are asked for the addresses of receivers"


def test_the_account_of_weir_alone_writes_its_kinds() -> None:
    things = manifests(Installation())
    account = [{"kind": "ServiceAccount", "name": "weir", "namespace": "weir-system"}]
    roles = [each for each in things if each["kind"] in ("ClusterRole", "Role")]
    bindings = [each for each in things if each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    writing = {
        each["metadata"]["name"] for each in roles if any(map(writes_own_kinds, each.get("rules", ())))
    }
    assert writing == {"weir", "weir-namespaces", "weir-edit", "weir-project-admin"}
    writing.remove("weir-project-admin")  # without a binding: it is for people
    (edit,) = (each for each in roles if each["metadata"]["name"] == "weir-edit")
    assert [rule["resources"] for rule in edit["rules"]] == [["sweeps", "notificationrules"]], (
        "as people make Jobs"
    )
    writing.remove("weir-edit")
    bound = [each["subjects"] for each in bindings if each["roleRef"]["name"] in (*writing, "weir-kinds")]
    assert len(bound) == 4
    assert all(subjects == account for subjects in bound)
    for each in roles:
        if each["metadata"]["name"] in writing:
            assert not [name for name in each["metadata"]["labels"] if "aggregate-to" in name]
        assert "*" not in str(each.get("rules", ()))


def test_with_managed_namespaces_weir_changes_nothing_in_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kube", "manifests", "--managed-namespaces", "vision", "speech"]) == 0
    things = list(yaml.load_all(capsys.readouterr().out, yaml.CSafeLoader))
    account = [{"kind": "ServiceAccount", "name": "weir", "namespace": "weir-system"}]
    mine = [each for each in things if each.get("subjects") == account]
    bound = {each["roleRef"]["name"] for each in mine if each["kind"] == "ClusterRoleBinding"}
    rules = [
        rule
        for each in things
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] in bound
        for rule in each.get("rules", ())
    ]
    changed = {
        resource
        for rule in rules
        if set(rule["verbs"]) - {"get", "list", "watch"}
        for resource in rule["resources"]
    }
    assert not changed & {"pods", "pods/binding", "pods/eviction", "pods/status", "jobs", "workloads"}
    assert not changed & {"events", "resourceclaims", "persistentvolumeclaims", "secrets", "sweeps/status"}
    within = {
        (each["metadata"]["namespace"], each["roleRef"]["name"])
        for each in mine
        if each["kind"] == "RoleBinding" and each["roleRef"]["kind"] == "ClusterRole"
    }
    assert within == {
        (namespace, role)
        for namespace in ("speech", "vision")
        for role in ("weir-namespaces", "weir-delete-pods")
    }
    (deployed,) = (each for each in things if each["kind"] == "Deployment")
    words = deployed["spec"]["template"]["spec"]["containers"][0]["args"]
    assert words[words.index("--managed-namespaces") + 1] == "speech,vision"
