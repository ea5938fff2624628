"""The objects of an installation, and the command that prints them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from weir.cli.main import main
from weir.kubernetes.install.manifests import Installation, manifests
from weir.kubernetes.install.monitoring.prometheus import alerts, rules
from weir.kubernetes.install.pods.network import source
from weir.kubernetes.translate.device_list import read_devices
from weir.kubernetes.usage.usage_reader import NO_DEVICES, NO_REPORTS, STUCK

ROOT = Path(__file__).resolve().parents[4]
DIGEST = "registry.example:5000/team/weir:1@sha256:" + "0a" * 32
OPTIONS = ("weir-daemonsets", "weir-node-names", "weir-scheduler-names")


def by_kind(things: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return {thing["metadata"]["name"]: thing for thing in things if thing["kind"] == kind}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["kube", "manifests", *words]) == 0
    return list(yaml.load_all(capsys.readouterr().out, yaml.CSafeLoader))


def test_each_policy_has_a_binding_that_denies_and_options_are_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, named in (((), ()), (("--require-scheduler",), OPTIONS[2:])):
        things = printed(capsys, *words)
        policies = by_kind(things, "ValidatingAdmissionPolicy")
        bindings = by_kind(things, "ValidatingAdmissionPolicyBinding")
        assert policies.keys() == bindings.keys()
        assert {*policies} >= {"weir-pods", "weir-bindings"}
        assert {*policies} & {*OPTIONS} == {*named}
        open_ones = {name for name, each in policies.items() if each["spec"]["failurePolicy"] == "Ignore"}
        assert open_ones == {"weir-shared-nodes"}, "without the kind of its list it mustn't refuse every pod"
        assert all(each["spec"]["policyName"] == name for name, each in bindings.items())
        assert all("Deny" in each["spec"]["validationActions"] for each in bindings.values())
    words = ("--refuse-node-name", "--daemonsets-in", "a", "b", "--exempt", "c")
    policies = by_kind(printed(capsys, *words), "ValidatingAdmissionPolicy")
    assert {*policies} & {*OPTIONS} == {*OPTIONS[:2]}
    left_out = policies["weir-daemonsets"]["spec"]["matchConstraints"]["namespaceSelector"]
    assert left_out["matchExpressions"][0]["values"] == ["a", "b", "c", "kube-system"]
    assert "namespaceSelector" not in policies["weir-pods"]["spec"]["matchConstraints"]


def test_agents_have_one_right_no_port_and_one_directory_of_the_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain, things = printed(capsys), printed(capsys, "--node")
    (daemons,) = by_kind(things, "DaemonSet").values()
    pod = daemons["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "ports" not in container
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert pod["automountServiceAccountToken"] is False
    (path,) = [each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each]
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == path]
    assert mount["readOnly"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (secret,) = [each["secret"] for each in pod["volumes"] if "secret" in each]
    assert [each["key"] for each in secret["items"]] == ["ca.crt"], "the key of the certificate stays Weir's"
    (binding,) = [
        each for each in things if "Binding" in each["kind"] and "weir-node" in str(each.get("subjects"))
    ]
    role = by_kind(things, binding["roleRef"]["kind"])[binding["roleRef"]["name"]]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}]
    assert "DaemonSet" not in {each["kind"] for each in plain}
    level = "pod-security.kubernetes.io/enforce"
    levels = [
        by_kind(some, "Namespace")["weir-system"]["metadata"]["labels"][level] for some in (plain, things)
    ]
    assert levels == ["restricted", "privileged"]
    assert main(["kube", "manifests", "--node", "--gpu-nodes", "a=b c"]) == 2
    assert "--gpu-nodes" in capsys.readouterr().err
    (bare,) = by_kind(
        printed(capsys, "--node", "--node-runtime-class", "none", "--gpu-nodes", "gpu=yes"), "DaemonSet"
    ).values()
    assert bare["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "yes"}
    assert "runtimeClassName" not in bare["spec"]["template"]["spec"]


def test_history_is_named_by_a_secret_or_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    def pod(*words: str) -> tuple[dict[str, Any], dict[str, Any]]:
        (found,) = by_kind(printed(capsys, *words), "Deployment").values()
        return found["spec"], found["spec"]["template"]["spec"]

    deployment, spec = pod("--history-secret", "db", "--keep-history", "90d")
    (container,) = spec["containers"]
    words = container["args"]
    assert words[words.index("--database-file") + 1] == "/etc/weir/history/url"
    assert words[words.index("--keep-history") + 1] == "90d"
    assert "postgresql" not in str(deployment)
    assert {"secretName": "db", "defaultMode": 0o444} in [each.get("secret") for each in spec["volumes"]]
    assert "strategy" not in deployment
    deployment, spec = pod("--history-claim", "disk", "--replicas", "1")
    (container,) = spec["containers"]
    assert "sqlite:////var/lib/weir/history.db" in container["args"]
    assert {"claimName": "disk"} in [each.get("persistentVolumeClaim") for each in spec["volumes"]]
    assert {"name": "history", "mountPath": "/var/lib/weir"} in container["volumeMounts"]
    assert (deployment["strategy"], spec["securityContext"]["fsGroup"]) == ({"type": "Recreate"}, 65532)
    _, spec = pod("--history-claim", "disk", "--history-any-group", "--replicas", "1")
    assert "fsGroup" not in spec["securityContext"], "restricted-v2 refuses one outside of its range"
    _, spec = pod()
    assert "history" not in str(spec)
    for refused, sentence in (
        (["--history-claim", "a"], "a volume serves one replica, not 2; add --replicas 1"),
        (["--history-claim", "a", "--history-secret", "b", "--replicas", "1"], "write one of them"),
        (["--history-secret", "A B"], "--history-secret: 'A B' is no name"),
    ):
        assert main(["kube", "manifests", *refused]) == 2
        assert sentence in capsys.readouterr().err


def test_policies_name_the_account_of_the_namespace_and_the_devices_of_the_installation() -> None:
    things = manifests(
        Installation("gpus", scheduler="night", devices=("a.io/card-*", "b.io/x"), optional=all_options())
    )
    policies = by_kind(things, "ValidatingAdmissionPolicy")
    assert "system:serviceaccount:gpus:weir" in str(policies["weir-pods"]["spec"]["matchConditions"])
    asks = str(policies["weir-node-names"]["spec"]["variables"])
    assert "r.startsWith('a.io/card-') || r == 'b.io/x'" in asks
    assert "nvidia" not in str(by_kind(things, "ValidatingWebhookConfiguration"))
    assert "write schedulerName: night" in str(policies["weir-scheduler-names"])
    pod = by_kind(things, "Deployment")["weir"]["spec"]["template"]["spec"]
    assert "--scheduler night --devices a.io/card-*,b.io/x" in " ".join(pod["containers"][0]["args"])
    assert by_kind(things, "ConfigMap")["weir-installation"]["data"] == {
        "scheduler": "night",
        "devices": "a.io/card-*,b.io/x",
    }


def all_options() -> Any:
    from weir.kubernetes.install.policies.admission_policies import OptionalPolicies

    return OptionalPolicies(refuse_node_name=True, require_scheduler=True, daemonset_namespaces=("x",))


def test_pods_of_an_installation_are_bounded_and_alone_have_the_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    things = printed(capsys, "--image", DIGEST, "--reachable-from", "10.0.0.5", "10.1.0.0/16", "monitoring")
    assert by_kind(things, "ServiceAccount")["weir"]["automountServiceAccountToken"] is False
    spec = by_kind(things, "Deployment")["weir"]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is True
    assert spec["containers"][0]["image"] == DIGEST
    assert {*spec["containers"][0]["resources"]["limits"]} == {"cpu", "memory"}
    network = by_kind(things, "NetworkPolicy")["weir"]["spec"]
    assert network["policyTypes"] == ["Ingress", "Egress"]
    assert network["ingress"] == [
        {
            "ports": [{"protocol": "TCP", "port": 9443}],
            "from": [
                {"ipBlock": {"cidr": "10.0.0.5/32"}},
                {"ipBlock": {"cidr": "10.1.0.0/16"}},
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
            ],
        }
    ]
    assert "from" not in by_kind(manifests(Installation()), "NetworkPolicy")["weir"]["spec"]["ingress"][0]


def test_only_leases_of_the_account_have_the_priority_of_leases() -> None:
    """A flow with more than that would let the account crowd out the leases of other controllers."""
    flow = by_kind(manifests(Installation("gpus")), "FlowSchema")["weir-leader-election"]
    (rule,) = flow["spec"]["rules"]
    assert [each["serviceAccount"] for each in rule["subjects"]] == [{"name": "weir", "namespace": "gpus"}]
    (resources,) = rule["resourceRules"]
    assert (resources["resources"], resources["namespaces"]) == (["leases"], ["gpus"])
    assert "list" not in resources["verbs"]


def test_pods_of_weir_are_critical_and_run_on_the_chosen_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    things = printed(capsys)
    pod = by_kind(things, "Deployment")["weir"]["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert not {"tolerations", "nodeSelector", "imagePullSecrets"} & pod.keys()
    quota = by_kind(things, "ResourceQuota")["weir-critical-pods"]["spec"]
    assert quota["scopeSelector"]["matchExpressions"][0]["values"] == ["system-cluster-critical"]

    words = [
        *("--pod-priority-class", "none", "--requests", "cpu=1,memory=1Gi", "--limits", "memory=4Gi"),
        *("--node-selector", "node-role.kubernetes.io/control-plane=,zone=a", "--pull-secret", "one", "two"),
        *("--tolerate", "dedicated=infra:NoSchedule", "spot"),
    ]
    things = printed(capsys, *words)
    pod = by_kind(things, "Deployment")["weir"]["spec"]["template"]["spec"]
    assert "priorityClassName" not in pod
    assert not by_kind(things, "ResourceQuota")
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "4Gi"}}
    assert pod["containers"][0]["resources"] == resources
    assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": "", "zone": "a"}
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert pod["tolerations"] == [
        {"key": "dedicated", "operator": "Equal", "value": "infra", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]


def test_names_outside_the_cluster_match_no_pod_of_a_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    """With Kubernetes' default, hooks.slack.com is first looked up as a pod of the namespace `com`."""
    pod = by_kind(printed(capsys), "Deployment")["weir"]["spec"]["template"]["spec"]
    assert {"name": "ndots", "value": "1"} in pod["dnsConfig"]["options"]


def test_the_api_is_registered_unless_it_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    registered = [each for each in printed(capsys) if each["kind"] == "APIService"]
    assert [each["spec"]["service"]["name"] for each in registered] == ["weir"]
    assert "APIService" not in {each["kind"] for each in printed(capsys, "--no-query-api")}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), {"weir-train", "weir-build", "weir-inference"}),
        (("--priority-classes", "plain"), {"train", "build", "inference"}),
        (("--priority-classes", "none"), set()),
    ],
)
def test_priority_classes_are_prefixed_plain_or_left_out(
    words: tuple[str, ...], names: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert {*by_kind(printed(capsys, *words), "PriorityClass")} == names


WRONG = [
    (("--managed-namespaces",), "--managed-namespaces: no name is given: write one, or leave it out for all"),
    (("--managed-namespaces", "a", "kube-system"), "kube-system is a namespace of the system"),
    (("--managed-namespaces", "Team"), "--managed-namespaces: 'Team' is no namespace"),
    (("--reachable-from", "10.0.0.1/24"), "'10.0.0.1/24' is neither a range of addresses nor a namespace"),
    (("--reachable-from", "Mon"), "'Mon' is neither"),
    (("--image", "weir@sha256:12"), "'weir@sha256:12' is no image: write NAME:TAG or NAME@sha256:"),
    (("--namespace", "Weir"), "--namespace: 'Weir' is no namespace"),
    (("--daemonsets-in", "a", "b_c"), "--daemonsets-in: 'b_c' is no namespace"),
    (("--exempt", "x'y"), '--exempt: "x\'y" is no namespace'),
    (("--scheduler", "a' || true"), '--scheduler: "a\' || true" is no name of a scheduler'),
    (("--devices", "gpu"), "--devices: 'gpu' is no resource of a device plugin"),
    (("--devices", ""), "--devices: '' is no resource"),
    (("--requests", "cpu"), "--requests: 'cpu' can't be used: write cpu=500m,memory=512Mi"),
    (("--limits", "cpu=a"), "--limits: 'a' is no amount of cpu"),
    (("--node-selector", "a=b c"), "--node-selector: 'b c' is no value of a label"),
    (("--tolerate", "a:Never"), "--tolerate: 'Never' is no effect of a taint: write one of NoSchedule"),
    (("--tolerate", "a b"), "--tolerate: 'a b' is no taint"),
    (("--pull-secret", "A"), "--pull-secret: 'A' is no name"),
    (("--pod-priority-class", "x y"), "--pod-priority-class: 'x y' is no name"),
    (("--devices", "nvidia.com/*"), "--devices: 'nvidia.com/*' is no resource"),
]


@pytest.mark.parametrize(("words", "reported"), WRONG)
def test_a_wrong_option_is_refused_in_one_sentence(
    words: tuple[str, ...], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kube", "manifests", *words]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert reported in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_lists_of_devices_and_sources_are_read() -> None:
    assert read_devices(" nvidia.com/gpu, a.io/mig-* ,nvidia.com/gpu").resources == (
        "nvidia.com/gpu",
        "a.io/mig-*",
    )
    with pytest.raises(ValueError, match="17 resources are named: write at most 16"):
        read_devices(",".join(f"a.io/{at}" for at in range(17)))
    assert source("fd00::/8") == "fd00::/8"
    assert source("10.0.0.5") == "10.0.0.5/32"


def test_rules_of_shared_gpus_are_arguments_of_the_container(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--shared-nodes", "3", "--overcommit-grace", "90s")
    pod = by_kind(printed(capsys, *words), "Deployment")["weir"]["spec"]["template"]["spec"]
    assert " ".join(words) in " ".join(pod["containers"][0]["args"])
    assert main(["kube", "manifests", "--overcommit-grace", "soon"]) == 2
    assert "--overcommit-grace" in capsys.readouterr().err


def test_one_image_is_all_that_an_installation_pulls(capsys: pytest.CaptureFixture[str]) -> None:
    dashboard = (
        "--dashboard-url",
        "https://weir.example.org",
        "--dashboard-issuer",
        "https://sso.example.org",
    )
    objects = printed(capsys, "--image", "registry.internal/weir:1", "--node", "--monitoring", *dashboard)
    pods = [
        each["spec"]["template"]["spec"] for each in objects if each["kind"] in ("Deployment", "DaemonSet")
    ]
    images = [one["image"] for pod in pods for one in (*pod["containers"], *pod.get("initContainers", []))]
    assert images == ["registry.internal/weir:1"] * 3


def test_each_alert_names_a_runbook_that_exists() -> None:
    (group,) = rules()["groups"]
    for rule in group["rules"]:
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = [line.removeprefix("## ").lower() for line in (ROOT / page).read_text().splitlines()]
        assert anchor in headings, rule["alert"]


def test_each_alert_has_its_first_look_on_the_page_of_operations() -> None:
    page = (ROOT / "docs/how-to/kubernetes/operations.md").read_text()
    assert [rule["alert"] for rule in alerts() if f"| `{rule['alert']}` | " not in page] == []


def test_each_message_about_unknown_use_is_in_its_runbook() -> None:
    _, _, runbook = (ROOT / "docs/how-to/kubernetes/runbooks.md").read_text().partition("## WeirUsageUnknown")
    assert [why for why in (STUCK, NO_DEVICES, NO_REPORTS) if f"| {why} |" not in runbook] == []


def test_charts_that_cannot_be_written_name_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["kube", "charts", str(tmp_path / "file/charts")]) == 1
    assert "can't be written: Not a directory; name another directory." in capsys.readouterr().err
