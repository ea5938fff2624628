"""Limits of GPU memory as the server knows them: called enforced only as long as the driver confirms them."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from weir.local.node.orders import GpuMemoryOrder
from weir.local.pods.gpu_memory_limits import GpuMemoryLimits
from weir.model.workloads import Request

GIB = 1 << 30
HALF, WHOLE = Request(devices=1, share_milli=500), Request(devices=1)


@dataclass
class Bench:
    """Limits with a node process that a test plays."""

    orders: list[GpuMemoryOrder] = field(default_factory=list)
    running: dict[str, Any] = field(default_factory=dict)
    workloads: dict[str, Any] = field(default_factory=dict)
    later: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        def memory(request: Request, devices: tuple[int, ...]) -> int:
            return 40 * GIB if request.share_milli < 1000 else 0

        node: Any = SimpleNamespace(machine=SimpleNamespace(gpu_memory_limit=memory))
        watch: Any = SimpleNamespace(later=lambda _, call: self.later.append(call))
        self.client: Any = SimpleNamespace(on_forked=lambda *_: None, limit_gpu_memory=self.orders.append)
        self.limits = GpuMemoryLimits(node, watch, threading.Lock(), self.running, self.workloads)
        self.limits.connect(self.client)

    def start(self, name: str, device: int, request: Request = HALF) -> str:
        """Start a pod, and let the node process be asked about it; return the name of its start."""
        start, uid = f"{len(self.running) + 1}/1-0-0", len(self.running) + 1
        pod = SimpleNamespace(workload=name, group=0)
        self.running[start] = SimpleNamespace(
            place=SimpleNamespace(pod=pod, devices=(device,)), uid=uid, process=99
        )
        workload = SimpleNamespace(groups=[SimpleNamespace(request=request)])
        self.workloads[name] = SimpleNamespace(workload=workload, launch=SimpleNamespace(uid=uid))
        self.limits.look([start])
        return start

    def why(self, name: str, *foreign: int) -> str:
        return self.limits.why_not(name, foreign)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_share_is_limited_once_the_driver_confirmed_it(bench: Bench) -> None:
    one = bench.start("one", 0)
    assert bench.orders == [GpuMemoryOrder(one, (0,), 40 * GIB)]
    assert "hasn't answered" in bench.why("one")
    bench.client.on_memory_limited(one, "")
    assert bench.why("one") == ""


def test_a_refusal_is_the_reason(bench: Bench) -> None:
    bench.client.on_memory_limited(bench.start("one", 0), "the driver refuses: Not Supported")
    assert bench.why("one") == "the driver refuses: Not Supported"


def test_another_job_without_limit_on_the_gpu_weakens_both(bench: Bench) -> None:
    one, two, three = bench.start("one", 0), bench.start("two", 0), bench.start("three", 1)
    for start, refused in ((one, ""), (two, "no permission"), (three, "")):
        bench.client.on_memory_limited(start, refused)
    assert bench.why("one") == "another job on its GPU isn't limited: no permission"
    assert bench.why("two") == "no permission"
    assert bench.why("three") == ""
    bench.running.pop(two)
    assert bench.why("one") == ""


def test_a_process_outside_the_pool_on_the_gpu_weakens_it(bench: Bench) -> None:
    bench.client.on_memory_limited(bench.start("one", 0), "")
    assert bench.why("one", 1) == ""
    assert "outside the pool" in bench.why("one", 1, 0)


def test_limits_are_read_again_and_an_answer_that_fails_to_come_counts_as_none(bench: Bench) -> None:
    one = bench.start("one", 0)
    bench.client.on_memory_limited(one, "")
    assert len(bench.orders) == 1
    again = bench.later[0]
    again()
    assert len(bench.orders) == 2
    assert bench.why("one") == "", "an answer is on its way"
    again()
    assert "hasn't answered" in bench.why("one"), "the driver hangs"
    bench.client.on_memory_limited(one, "")
    assert bench.why("one") == ""
    again()
    bench.client.on_memory_limited(one, "the driver refuses: GPU is lost")
    assert "lost" in bench.why("one")


def test_pods_with_whole_gpus_and_pods_that_are_not_running_need_no_limit(bench: Bench) -> None:
    bench.start("whole", 0, WHOLE)
    assert bench.orders == []
    assert bench.why("whole") == ""
    assert bench.why("pending") == "it doesn't run"


def test_an_answer_for_a_start_that_is_over_is_forgotten(bench: Bench) -> None:
    one = bench.start("one", 0)
    bench.running.pop(one)
    bench.client.on_memory_limited(one, "")
    assert bench.limits._states.keys() <= {one}
    bench.limits.look([])
    assert not bench.limits._states


def test_a_pool_of_one_user_has_no_limits() -> None:
    nothing: Any = SimpleNamespace()
    limits = GpuMemoryLimits(nothing, nothing, threading.Lock(), {}, {})
    assert "installed pool" in limits.why_not("one", ())
