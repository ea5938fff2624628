"""GPU pods in namespaces that no project lists: ignored, refused or queued, in the webhooks and the picture."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import KINDS, WatchProgress, node, pod, project

from weir.cli.kube.option_checks import without_project
from weir.cli.options.mistakes import WrongOption
from weir.kubernetes.admission.reviews import PodRules, QuotaTree, defaulting_patch, review_errors
from weir.kubernetes.api.objects import Metadata, Namespace
from weir.kubernetes.crd.queue_tree import QueueObject
from weir.kubernetes.crd.without_project import WithoutProject, read_rule
from weir.kubernetes.install.manifests import Installation, manifests
from weir.kubernetes.install.policies.admission_policies import OptionalPolicies
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources

READING = PodRules("weir", {"nvidia.com/gpu"}.__contains__)
PROJECTS = {
    "team": QueueObject("team", {"namespaces": ["a"]}),
    "shared": QueueObject("shared", {"quota": {"gpu": 2}}),
}
LABELS = {"lab": {"tier": "research"}, "ops": {"tier": "ops"}}


def known(rule: WithoutProject) -> QuotaTree:
    return QuotaTree({}, PROJECTS, {}, rule, LABELS)


def asked(kind: str, thing: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {"kind": {"kind": kind}, "namespace": namespace, "operation": "CREATE", "object": thing}


def gpu_pod(gpus: int = 1, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}], **spec},
    }


def refused(rule: WithoutProject, namespace: str, thing: dict[str, Any], kind: str = "Pod") -> bool:
    found = review_errors(asked(kind, thing, namespace), known(rule), READING)
    return any("GPUs are given through projects alone" in each for each in found)


def test_pods_past_the_projects_are_refused_where_the_rule_holds() -> None:
    rule = WithoutProject("refuse", exempt=("gpu-operator",))
    job = {"metadata": {"name": "j"}, "spec": {"template": gpu_pod()}}
    assert refused(rule, "lab", gpu_pod())
    assert refused(rule, "lab", job, "Job")
    assert not refused(rule, "lab", gpu_pod(0))
    for namespace in ("a", "kube-system", "gpu-operator"):
        assert not refused(rule, namespace, gpu_pod())
    chosen = WithoutProject("refuse", labels=(("tier", "research"),))
    assert refused(chosen, "lab", gpu_pod())
    assert not refused(chosen, "ops", gpu_pod())
    assert not refused(chosen, "unlabelled", gpu_pod())
    assert not refused(WithoutProject(), "lab", gpu_pod())


def test_pods_without_a_project_are_queued_under_the_default_one() -> None:
    rule = WithoutProject("queue", "shared", (("tier", "research"),))

    def ops(namespace: str, thing: dict[str, Any]) -> dict[str, Any]:
        found = defaulting_patch(asked("Pod", thing, namespace), known(rule), READING)
        return {each["path"]: each["value"] for each in found}

    given = ops("lab", gpu_pod())
    assert given["/spec/schedulerName"] == "weir"
    assert given["/metadata/labels/weir.dev~1project"] == "shared"
    assert ops("ops", gpu_pod()) == {}
    assert ops("lab", gpu_pod(0)) == {}
    assert ops("lab", gpu_pod(schedulerName="other")) == {}
    assert ops("a", gpu_pod())["/metadata/labels/weir.dev~1project"] == "team"


class Ruled(WatchProgress):
    def __init__(self, rule: WithoutProject) -> None:
        super().__init__()
        self.cluster_state = ClusterState(KINDS, DeviceResources(), without_project=rule)
        self.see("nodes", node("n1"))

    def namespace(self, name: str, **labels: str) -> None:
        self.see("namespaces", Namespace(Metadata(name, labels=labels)))


def test_what_has_no_project_counts_for_the_default_one_while_its_namespace_is_chosen() -> None:
    reported = Ruled(WithoutProject("queue", "shared", (("tier", "research"),)))
    reported.namespace("lab", tier="research")
    reported.see("pods", pod("p", namespace="lab"))
    reported.step()
    (gang,) = reported.cluster_state.registry.gangs.values()
    assert gang.refusal == "There is no project shared, for namespaces without a project: make it."
    reported.see("projects", project("shared", "elsewhere"))
    reported.step()
    assert gang.project == "shared"
    assert gang.refusal == ""
    reported.namespace("lab", tier="ops")
    reported.step()
    reported.step()
    assert gang.project is None
    assert "belongs to no project" in gang.refusal
    reported.namespace("lab", tier="research")
    reported.see("projects", project("own", "lab"))
    reported.step()
    assert gang.project == "own"


def test_the_policy_and_the_arguments_state_the_same_rule() -> None:
    rule = read_rule("queue:shared", {"tier": "research"}, ("gpu-operator",))
    things = manifests(Installation("home", optional=OptionalPolicies(without_project=rule)))
    (policy,) = (
        each
        for each in things
        if each["metadata"]["name"] == "weir-projects"
        and "Policy" in each["kind"]
        and "Binding" not in each["kind"]
    )
    selector = policy["spec"]["matchConstraints"]["namespaceSelector"]
    assert selector["matchLabels"] == {"tier": "research"}
    assert {"kube-system", "gpu-operator"} <= set(selector["matchExpressions"][0]["values"])
    (deployment,) = (each for each in things if each["kind"] == "Deployment")
    words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    at = words.index("--without-project")
    assert words[at : at + len(rule.words())] == rule.words()
    assert without_project(words[at + 1], words[at + 3], words[at + 5].split(",")) == rule
    plain = manifests(Installation("home"))
    assert not any(each["metadata"]["name"] == "weir-projects" for each in plain)
    assert "--without-project" not in str(plain)


@pytest.mark.parametrize(
    ("action", "selector", "exempt", "reported"),
    [
        ("queue", None, (), "--without-project: 'queue' names no project: write queue:PROJECT"),
        ("queue:No Such", None, (), "names no project"),
        ("refuse:x", None, (), "isn't known: write ignore, refuse or queue:PROJECT"),
        ("deny", None, (), "isn't known"),
        ("refuse", "tier", (), "--without-project-in: "),
        ("refuse", None, ("No",), "--without-project-exempt: 'No' is no namespace"),
    ],
)
def test_mistakes_in_the_rule_are_named(
    action: str, selector: str | None, exempt: tuple[str, ...], reported: str
) -> None:
    with pytest.raises(WrongOption) as raised:
        without_project(action, selector, exempt)
    assert reported in str(raised.value)
