"""Limits of the memory of shares: the groups that get them, when, and what is said if that fails."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from weir.kubernetes.node.memory_limits import MemoryLimits
from weir.kubernetes.node.pod_groups import PodGroups
from weir.kubernetes.node.report_sender import NotDelivered
from weir.kubernetes.usage.node_shares import PodShare

A, B = "0a1b2c3d-0000-4000-8000-00000000000a", "0a1b2c3d-0000-4000-8000-00000000000b"
GIB = 1 << 30


class Node:
    """A node's control groups, a driver that keeps limits with them, and a Weir that states shares."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pods = root / "kubepods.slice" / "kubepods-burstable.slice"
        self.now_s = 100.0
        self.shares: list[PodShare] = []
        self.asked = 0
        self.is_away = False
        self.refusal = ""
        self.set: dict[tuple[str, int], int] = {}
        self.limits = MemoryLimits(self, PodGroups(root), self.ask, lambda: self.now_s)

    def pod(self, uid: str, *containers: str, dmem: bool = False) -> Path:
        group = self.pods / f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        for each in (group, *(group / f"cri-containerd-{name}.scope" for name in containers)):
            each.mkdir(parents=True, exist_ok=True)
            if dmem:
                (each / "dmem.max").touch()
        return group

    def ask(self) -> Sequence[PodShare]:
        self.asked += 1
        if self.is_away:
            raise NotDelivered("weir-replicas has no address")
        return self.shares

    def limit_memory(self, gpu: int, group: str, memory: int) -> str:
        if not self.refusal:
            self.set[str(Path(group).relative_to(self.pods)), gpu] = memory
        return self.refusal


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def names(node: Node) -> set[str]:
    return {group.rpartition("-")[2].removesuffix(".scope") for group, _ in node.set if "scope" in group}


def test_the_group_of_a_pod_with_a_share_is_limited_on_each_of_its_gpus(node: Node) -> None:
    """A limit of a container would replace that of the pod: two containers would have two shares."""
    pod = node.pod(A, "sandbox", "main", "sidecar")
    node.pod(B, "other")
    node.shares = [PodShare(A, (1, 3), 5 * GIB)]
    node.limits.apply(is_due=False)
    assert node.limits.limited == [A]
    assert node.set == {(pod.name, gpu): 5 * GIB for gpu in (1, 3)}


def test_where_the_kernel_counts_the_memory_of_devices_each_container_is_limited_too(node: Node) -> None:
    pod = node.pod(A, "sandbox", dmem=True)
    node.shares = [PodShare(A, (0,), GIB)]
    node.limits.apply(is_due=True)
    asked = node.asked
    node.pod(A, "main", dmem=True)
    node.limits.apply(is_due=False)
    assert set(node.set) == {
        (pod.name, 0),
        *((f"{pod.name}/cri-containerd-{name}.scope", 0) for name in ("sandbox", "main")),
    }
    assert (node.limits.limited, node.asked) == ([A], asked)


def test_weir_is_asked_again_while_it_may_not_have_heard_of_a_new_pod(node: Node) -> None:
    node.pod(A, "main")
    node.limits.apply(is_due=False)
    node.now_s += 2
    node.shares = [PodShare(A, (0,), GIB)]
    node.limits.apply(is_due=False)
    assert (node.limits.limited, node.asked) == ([A], 2)
    node.pod(B, "daemon")
    for _ in range(20):
        node.now_s += 2
        node.limits.apply(is_due=False)
    assert node.asked == 2 + 4, "at longer and longer intervals, and no more after a while"


def test_a_driver_that_was_loaded_again_gets_all_limits_again(node: Node) -> None:
    pod = node.pod(A, "main")
    node.shares = [PodShare(A, (0,), GIB)]
    node.limits.apply(is_due=True)
    node.set.clear()
    node.limits.apply(is_due=False)
    assert not node.set
    node.limits.apply(is_due=True)
    assert set(node.set) == {(pod.name, 0)}


def test_known_limits_are_set_before_weir_is_asked_and_stay_while_it_is_away(node: Node) -> None:
    pod = node.pod(A, "main", dmem=True)
    node.shares = [PodShare(A, (0,), GIB)]
    node.limits.apply(is_due=True)
    node.is_away = True
    node.pod(A, "more", dmem=True)
    node.limits.apply(is_due=True)
    assert (node.limits.limited, names(node)) == ([A], {"main", "more"})
    asked = node.asked
    node.pod(B, "new")
    node.limits.apply(is_due=False)
    assert node.asked == asked, "a Weir that is away is asked at the regular times alone"
    assert (pod.name, 0) in node.set


def test_a_refusal_is_said_once_and_tried_again(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.pod(A, "main")
    node.shares = [PodShare(A, (0,), GIB)]
    node.refusal = "GPU 0: the driver refuses: Not Supported"
    for _ in range(3):
        node.limits.apply(is_due=True)
    assert node.limits.limited == []
    assert capsys.readouterr().out.count("the driver refuses: Not Supported") == 1
    node.refusal = ""
    node.limits.apply(is_due=True)
    assert node.limits.limited == [A]


def test_a_node_whose_groups_arent_there_is_named(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """A mount is missing, or the root is another: no share could ever be limited."""
    node.limits.apply(is_due=True)
    assert f"there is no control group of a pod below {node.root}" in capsys.readouterr().out
    node.pod(A, "main")
    node.limits.apply(is_due=True)
    assert not capsys.readouterr().out


def test_a_container_that_ends_before_its_limit_is_set_is_no_refusal(node: Node) -> None:
    pod = node.pod(A, "main", dmem=True)
    node.shares = [PodShare(A, (0,), GIB)]

    def limit(gpu: int, group: str, memory: int) -> str:
        if group == str(pod):
            return ""
        shutil.rmtree(group)
        return "the driver refuses: Not Found"

    node.limit_memory = limit  # type: ignore[method-assign]
    node.limits.apply(is_due=True)
    assert node.limits.limited == [A]


def test_a_pod_that_ends_or_loses_its_share_isnt_limited_any_more(node: Node) -> None:
    group = node.pod(A, "main")
    node.pod(B, "main")
    node.shares = [PodShare(A, (0,), GIB), PodShare(B, (0,), GIB)]
    node.limits.apply(is_due=True)
    shutil.rmtree(group)
    node.limits.apply(is_due=False)
    assert node.limits.limited == [B]
    node.shares = []
    node.limits.apply(is_due=True)
    assert node.limits.limited == []


@pytest.mark.parametrize(
    "layout",
    [
        f"kubepods/besteffort/pod{A}",
        f"kubepods/pod{A}",
        f"kubepods.slice/kubepods-pod{A.replace('-', '_')}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/x-pod{A.replace('-', '_')}.slice",
        f"own/root/kubepods/burstable/pod{A}",
    ],
)
def test_groups_are_found_in_each_layout_of_the_kubelet(tmp_path: Path, layout: str) -> None:
    (tmp_path / layout / "container").mkdir(parents=True)
    (tmp_path / "system.slice/a.service/b/c").mkdir(parents=True)
    assert PodGroups(tmp_path).by_pod(is_due=True) == {A: tmp_path / layout}


def test_groups_outside_those_of_the_kubelet_and_links_are_no_pods(tmp_path: Path) -> None:
    (tmp_path / f"user.slice/pod{A}").mkdir(parents=True)
    (tmp_path / "kubepods").symlink_to(tmp_path / "user.slice")
    (tmp_path / f"kubepods.slice/kubepods-pod{B}.slice/c/pod{A}").mkdir(parents=True)
    assert set(PodGroups(tmp_path).by_pod(is_due=True)) == {B}, (
        "a container may name the groups below its own as it likes"
    )
