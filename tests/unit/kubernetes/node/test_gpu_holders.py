"""Which GPU a device of the kubelet is, and when nothing can be said of its use."""

from weir.kubernetes.node.gpu_holders import PodDevice, WholeGpu, pod_devices
from weir.kubernetes.node.pod_resources import GivenDevice

FIRST, SECOND = WholeGpu("GPU-a", 0, 4), WholeGpu("GPU-b", 1, 5)
GPUS = (FIRST, SECOND)


def given(pod: str, device: str, resource: str = "nvidia.com/gpu") -> GivenDevice:
    return GivenDevice("team", pod, resource, device)


def claimed(pod: str, device: str, *, driver: str = "gpu.nvidia.com", share: bool = False) -> GivenDevice:
    return GivenDevice("team", pod, driver, device, is_claimed=True, is_share=share)


def test_a_whole_gpu_is_found_by_its_uuid_its_index_or_its_minor_number() -> None:
    found = pod_devices([given("a", "GPU-a")], GPUS)
    assert found == [PodDevice("team", "a", "GPU-a", FIRST)]
    assert pod_devices([given("a", "1")], GPUS) == [PodDevice("team", "a", "GPU-b", SECOND)]
    assert pod_devices([claimed("a", "gpu-4")], GPUS) == [PodDevice("team", "a", "GPU-a", FIRST)]
    assert pod_devices([given("a", "GPU-b", "example.com/big")], GPUS)[0].gpu is SECOND, "a renamed resource"


def test_a_device_of_two_containers_of_one_pod_counts_once() -> None:
    assert pod_devices([given("a", "GPU-a")] * 2, GPUS) == [PodDevice("team", "a", "GPU-a", FIRST)]


def test_parts_replicas_shares_and_strangers_have_a_pod_but_no_gpu() -> None:
    for one in (
        given("a", "GPU-a::0", "nvidia.com/gpu.shared"),
        given("a", "GPU-a::1"),
        given("a", "MIG-1", "nvidia.com/mig-1g.10gb"),
        given("a", "GPU-unknown"),
        given("a", "7"),
        claimed("a", "gpu-4", share=True),
        claimed("a", "gpu-0"),
        claimed("a", "gpu-4-mig-1g10gb-0"),
    ):
        (found,) = pod_devices([one], GPUS)
        assert found == PodDevice("team", "a", one.device, None), one


def test_a_gpu_of_two_pods_is_nobodys_alone() -> None:
    both = pod_devices([given("a", "GPU-a"), claimed("b", "gpu-4"), given("c", "GPU-b")], GPUS)
    assert {each.pod: each.gpu for each in both} == {"a": None, "b": None, "c": SECOND}
    replica = pod_devices([given("a", "GPU-a"), given("b", "GPU-a::3")], GPUS)
    assert [each.gpu for each in replica] == [None, None]


def test_devices_that_are_no_gpus_are_left_out() -> None:
    others = [
        given("a", "eth0", "example.com/nic"),
        given("a", "0", "amd.com/gpu"),
        claimed("a", "gpu-4", driver="dra.example.com"),
    ]
    assert pod_devices(others, GPUS) == []
