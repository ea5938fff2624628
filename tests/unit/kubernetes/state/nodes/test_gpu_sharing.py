"""Nodes set aside for shares: which state they are in, the taint that is written, and what a pod is given."""

from typing import Any

from tests.unit.kubernetes.small_world import WatchProgress, node, pod, project

from weir.api.answers import Explanation
from weir.kubernetes.admission.shared_devices import debugging_changes, share_changes
from weir.kubernetes.api.objects import KubeNode, NodeTaint, OwnerReference
from weir.kubernetes.crd.scheduler_settings import SharedNodeRules
from weir.kubernetes.translate.gpu_sharing import (
    BY_POLICY,
    DRAINING,
    GPU_SHARING,
    NO_SHARED_NODES,
    SET_ASIDE,
    SHARED_NODES_DRAIN,
    SHARING_TAINT,
)
from weir.kubernetes.writes.nodes.shared_node_list import AGAIN_S as AGAIN_LISTED_S
from weir.kubernetes.writes.nodes.shared_node_list import SharedNodeList
from weir.kubernetes.writes.nodes.shared_nodes import SharedNodes
from weir.kubernetes.writes.nodes.taints import AGAIN_S, NodeTaints

OTHER = NodeTaint("example.com/x", "NoExecute", "1", "2026-01-01T00:00:00Z")


def share(name: str, **more: Any) -> Any:
    made = pod(name, gpus=0, **more)
    made.metadata.annotations["weir.dev/gpu-fraction"] = "0.5"
    return made


def labelled(name: str, *, taint: bool, version: str = "1") -> KubeNode:
    made = node(name, shared=True)
    made.spec.taints = [OTHER, *(made.spec.taints if taint else [])]
    made.metadata.resource_version = version
    return made


def reported(*nodes: KubeNode) -> WatchProgress:
    here = WatchProgress()
    here.see("projects", project("team", gpus=8))
    here.see("nodes", *nodes)
    here.step()
    return here


def state(here: WatchProgress, name: str) -> str | None:
    found = here.control.cluster.nodes[here.control.cluster.node_at[name]]
    assert found is not None
    assert (SHARING_TAINT in found.taints) == (GPU_SHARING in found.labels)
    return found.labels.get(GPU_SHARING)


def refusal(here: WatchProgress) -> str:
    here.step()
    if here.cluster_state.due_s == here.now_s:  # what the step found out concerns how pods are read
        here.step()
    return here.cluster_state.resolver.devices.no_shares


def test_a_static_pod_with_a_whole_device_closes_its_node_to_shares_until_it_is_gone() -> None:
    """The kubelet runs it whatever a scheduler or an admission policy says."""
    here = reported(labelled("n", taint=True))
    assert (refusal(here), state(here, "n")) == ("", SET_ASIDE)
    static = pod("static", on="n", scheduler="default-scheduler", phase="Running")
    static.metadata.annotations = {"kubernetes.io/config.mirror": "1", "kubernetes.io/config.source": "file"}
    static.metadata.owner_references = [OwnerReference("v1", "Node", "n", "u-n", controller=True)]
    here.see("pods", static)
    assert (refusal(here), state(here, "n")) == (SHARED_NODES_DRAIN, DRAINING)
    assert not here.control.cluster.jobs
    use = here.cluster_state.node_states.device_use("n")
    assert use is not None
    assert (use.others, use.own_milli, use.excess_milli) == (1, 0, 0)
    here.gone("pods", "team/static", "u-static")
    assert (refusal(here), state(here, "n")) == ("", SET_ASIDE)


def test_the_list_of_shared_nodes_is_written_again_after_a_while() -> None:
    here = reported(labelled("n", taint=True))
    refusal(here)
    names = SharedNodeList(here.cluster_state.node_states, "weir-system")
    assert names.due_s is None
    assert len(names.take(0.0)) == 1
    assert names.take(1.0) == []
    assert names.due_s == AGAIN_LISTED_S
    (again,) = names.take(AGAIN_LISTED_S)
    assert again.body["spec"] == {"nodes": ["n"]}


def test_a_labelled_node_takes_shares_once_it_is_tainted_and_free_of_whole_devices() -> None:
    here = reported(node("n"))
    assert (state(here, "n"), refusal(here)) == (None, NO_SHARED_NODES)
    here.see("pods", pod("other", on="n", scheduler="another", phase="Running"))
    here.see("nodes", labelled("n", taint=False))
    assert (refusal(here), state(here, "n")) == (SHARED_NODES_DRAIN, DRAINING)
    here.see("nodes", labelled("n", taint=True))
    assert (refusal(here), state(here, "n")) == (SHARED_NODES_DRAIN, DRAINING)
    here.gone("pods", "team/other", "u-other")
    assert (refusal(here), state(here, "n")) == ("", SET_ASIDE)
    here.see("pods", pod("mine", on="n", phase="Running"))
    assert (refusal(here), state(here, "n")) == (SHARED_NODES_DRAIN, DRAINING)
    here.gone("nodes", "n")
    assert refusal(here) == NO_SHARED_NODES


def test_a_node_without_the_label_takes_no_whole_devices_until_its_shares_are_gone() -> None:
    bare = node("n")
    bare.spec.taints = [NodeTaint(GPU_SHARING, "NoSchedule", SET_ASIDE)]
    here = reported(node("n", shared=True))
    here.see("pods", share("a", on="n", devices="0", start=1, phase="Running"))
    here.see("nodes", bare)
    here.step()
    assert state(here, "n") == DRAINING
    here.gone("pods", "team/a", "u-a")
    here.step()
    assert state(here, "n") is None


def test_shares_that_bind_themselves_to_a_node_for_whole_devices_dont_block_it() -> None:
    here = reported(node("n"))
    here.see("pods", share("a", on="n", phase="Running"))
    here.step()
    assert state(here, "n") is None


def test_the_taint_is_added_and_removed_beside_others_and_repeated_after_a_while() -> None:
    here = reported(labelled("n", taint=False, version="7"))
    taints = NodeTaints(here.cluster_state.node_states)
    (patch,) = taints.take(10.0)
    own = {"key": GPU_SHARING, "value": SET_ASIDE, "effect": "NoSchedule"}
    other = {"key": "example.com/x", "value": "1", "effect": "NoExecute", "timeAdded": OTHER.time_added}
    assert patch.patch == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [other, own]}}
    assert taints.take(10.1) == []
    assert taints.due_s == 10.0 + AGAIN_S
    assert len(taints.take(10.0 + AGAIN_S)) == 1
    here.see("nodes", labelled("n", taint=True))
    assert (taints.take(11.0), taints.due_s) == ([], None)
    bare = labelled("n", taint=True)
    bare.metadata.labels.pop(GPU_SHARING)
    here.see("nodes", bare)
    (patch,) = taints.take(12.0)
    assert patch.patch["spec"] == {"taints": [other]}


def test_each_container_of_a_share_sees_the_devices_of_its_pod() -> None:
    named = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    spec = {
        "containers": [{"env": [{"name": "A"}, named, named]}, {"env": [{"name": "A"}]}],
        "initContainers": [{}],
        "tolerations": [{"key": GPU_SHARING, "operator": "Exists"}],
    }
    changes = list(share_changes({"metadata": {"annotations": {"a": "b"}}, "spec": spec}))
    assert [each["path"] for each in changes] == [
        "/metadata/annotations/weir.dev~1share-variables",
        *("/spec/containers/0/env/1", "/spec/containers/0/env/2", *["/spec/containers/0/env/-"] * 2),
        *["/spec/containers/1/env/-"] * 3,
        *("/spec/initContainers/0/env", *["/spec/initContainers/0/env/-"] * 2),
    ]
    entries = [each["value"] for each in changes[5:8]]
    assert {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in entries} == {
        "NVIDIA_VISIBLE_DEVICES": "metadata.annotations['weir.dev/gpus']",
        "NVIDIA_GPU_MEMORY_REQUEST": "metadata.annotations['weir.dev/gpu-memory-limit']",
        "NVIDIA_GPU_MEMORY_LIMIT": "metadata.annotations['weir.dev/gpu-memory-limit']",
    }
    assert changes[1]["op"] == changes[2]["op"] == "replace"
    bare = [each["path"] for each in share_changes({"spec": {"containers": []}})]
    assert bare == [
        "/metadata/annotations",
        "/metadata/annotations/weir.dev~1share-variables",
        "/spec/tolerations",
    ]


def test_a_pod_with_a_privileged_container_doesnt_state_that_its_memory_is_limited() -> None:
    for part in ("containers", "initContainers"):
        spec = {"containers": [{}], part: [{"securityContext": {"privileged": True}}]}
        paths = [each["path"] for each in share_changes({"spec": spec})]
        assert not any("annotations" in each for each in paths)
        assert f"/spec/{part}/0/env" in paths, "it gets its device"


def test_a_container_for_debugging_gets_the_variables_of_its_pod() -> None:
    before = {"spec": {"ephemeralContainers": [{"name": "old"}]}}
    wants_all = {"name": "new", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    pod: dict[str, Any] = {"spec": {"containers": [{}], "ephemeralContainers": [{"name": "old"}, wants_all]}}
    assert not list(debugging_changes(pod, before)), "it has no share"
    pod["metadata"] = {"annotations": {"weir.dev/share-variables": "true"}}
    paths = [each["path"] for each in debugging_changes(pod, before)]
    new = "/spec/ephemeralContainers/1/env"
    assert paths == [f"{new}/0", f"{new}/-", f"{new}/-"]


RULES = SharedNodeRules(max=1, wait=60.0, idle=600.0)


def labels(shared: SharedNodes, now_s: float) -> list[tuple[str, Any]]:
    """Return the labels that are written at a time, by node."""
    patches: list[Any] = shared.take(now_s)
    return [(each.path.rpartition("/")[2], each.patch["metadata"]["labels"][GPU_SHARING]) for each in patches]


def test_weir_sets_an_unused_node_aside_when_shares_wait_for_long_and_takes_it_back() -> None:
    busy, large, small = node("a"), node("b", gpus=8), node("c", gpus=2)
    here = reported(busy, large, small, node("d", gpus=1, cordoned=True))
    here.see("pods", pod("other", on="a", scheduler="another", phase="Running"))
    reasons: dict[str, Explanation] = {}
    shared = SharedNodes(here.cluster_state, reasons, RULES)
    here.see("pods", pod("whole"))
    here.step()
    assert [labels(shared, at) for at in (0.0, 100.0)] == [[], []]
    here.see("pods", share("s"))
    here.step()
    assert [labels(shared, at) for at in (200.0, 255.0, 261.0)] == [[], [], [("c", BY_POLICY)]]
    small.metadata.labels[GPU_SHARING] = BY_POLICY
    small.spec.taints = [NodeTaint(GPU_SHARING, "NoSchedule", SET_ASIDE)]
    here.see("nodes", small)
    assert refusal(here) == ""
    assert labels(shared, 400.0) == [], "it may set one node aside, not two"
    here.see("pods", share("s", on="c", devices="0", start=1, phase="Running"))
    here.step()
    assert [labels(shared, at) for at in (500.0, 2000.0)] == [[], []]
    here.gone("pods", "team/s", "u-s")
    here.step()
    assert [labels(shared, at) for at in (3000.0, 3590.0, 3600.0)] == [[], [], [("c", None)]]
    assert labels(SharedNodes(here.cluster_state, reasons, SharedNodeRules()), 9000.0) == []


def test_shares_that_wait_for_their_quota_need_no_node() -> None:
    here = reported(node("free"), node("taken", shared=True))
    here.see("pods", share("s"))
    here.step()
    reasons = {"team/pod-s": Explanation(why="over_limit", sentence="")}
    shared = SharedNodes(here.cluster_state, reasons, RULES)
    assert [labels(shared, at) for at in (0.0, 70.0, 140.0)] == [[], [], []]
    reasons["team/pod-s"] = Explanation(why="insufficient_capacity", sentence="")
    assert [labels(shared, at) for at in (200.0, 261.0)] == [[], [("free", BY_POLICY)]]


def test_nodes_that_people_set_aside_are_never_taken_back() -> None:
    here = reported(node("n", shared=True))
    shared = SharedNodes(here.cluster_state, {}, RULES)
    assert [labels(shared, at) for at in (0.0, 700.0, 1400.0)] == [[], [], []]


def test_the_names_of_nodes_set_aside_are_written_when_they_change_and_by_each_leader() -> None:
    bare = node("c")
    bare.spec.taints = [NodeTaint(GPU_SHARING, "NoSchedule", SET_ASIDE)]
    here = reported(node("a"), labelled("b", taint=False), bare)
    names = SharedNodeList(here.cluster_state.node_states, "weir-system")
    (write,) = names.take(0.0)
    assert write.path == "/apis/weir.dev/v1alpha1/sharednodes/weir-shared-nodes"
    assert write.body["spec"] == {"nodes": ["b"]}
    assert names.take(0.0) == []
    names.forget()
    assert len(names.take(0.0)) == 1
    here.gone("nodes", "b")
    assert [each.body["spec"] for each in names.take(0.0)] == [{"nodes": []}]
    assert SharedNodeList(here.cluster_state.node_states, "").take(0.0) == []
