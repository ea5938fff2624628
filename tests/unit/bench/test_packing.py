"""The packing benchmark on a pool in which the answers are known."""

from bench.packing import Pool, retried

from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.workloads import Request

POLICY = Policy.model_validate({"preset": "throughput", "consolidation": {"enabled": False}})


def pool(gpus: tuple[int, ...], cpu: int = 64_000) -> Pool:
    capacity = {"cpu": cpu, "memory": 512 << 30, "pods": 110}
    return Pool(
        [Node(f"node{index}", devices, 16 << 30, capacity) for index, devices in enumerate(gpus)], POLICY
    )


def share(milli: int) -> Request:
    return Request(devices=1, share_milli=milli)


def arrive(to: Pool, *requests: Request) -> list[Request]:
    return [request for number, request in enumerate(requests) if not to.arrives(number, request)]


def test_a_running_pod_changes_its_node_for_one_that_was_lost() -> None:
    packed = pool((3, 2))
    lost = arrive(packed, Request(devices=1), Request(devices=2), Request(devices=2))
    assert lost == [Request(devices=2)]
    figures = retried(packed, POLICY, lost, 10)
    assert (figures["alloc_moved"], figures["moved"], figures["stopped"]) == (100.0, 1, 0)


def test_no_more_are_moved_than_may_be() -> None:
    packed = pool((3, 2, 3, 2))
    one, two = Request(devices=1), Request(devices=2)
    lost = arrive(packed, one, two, one, two, two, two, two)
    moved = retried(packed, POLICY, lost, 1)["moved"]
    assert moved <= 1


def test_the_second_figure_stops_pods_and_says_so() -> None:
    packed = pool((1, 1))
    lost = arrive(packed, share(810), share(810), Request(devices=1), Request(devices=1))
    assert len(lost) == 2
    figures = retried(packed, POLICY, lost, 1)
    assert (figures["alloc_moved"], figures["moved"]) == (81.0, 0)
    assert (figures["alloc_filled"], figures["stopped"]) == (90.5, 1)
