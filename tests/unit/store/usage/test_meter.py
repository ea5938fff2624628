"""Usage over time, integrated from a few events."""

from dataclasses import replace

import pytest

from weir.model.activity import Activity
from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    Event,
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.reduce import reduce
from weir.store.records import UsageSample, UsageSamples
from weir.store.usage.meter import UsageMeter

GROUND: tuple[Event, ...] = (
    NodeSet(Node("node", 8, 16 << 30, {"cpu": 64_000, "memory": 1 << 40, "pods": 110})),
    QueuesSet((Queue("lab", None, False), Queue("team", "lab", quota={"gpu": 2000}), Queue("other"))),
)


class Metered:
    """A cluster and its meter."""

    def __init__(self, since_s: float = 0.0) -> None:
        self.cluster = Cluster()
        self.uids: dict[str, int] = {}
        self.meter = UsageMeter(self.uids.get)
        self.meter.watch(self.cluster, since_s)
        self.happen(*GROUND)

    def happen(self, *events: Event) -> None:
        """As control does it."""
        for event in events:
            reduce(self.cluster, event)
            self.meter.happened(event)

    def submit(self, name: str, at_s: float = 0.0, *, pods: int = 1, **words: object) -> None:
        """A workload of pods with a device each."""
        self.uids[name] = len(self.uids) + 1
        request = words.pop("request", Request(devices=1))
        assert isinstance(request, Request)
        spec = Workload(name, "team", (PodGroup("0", request, pods, pods),), pods, at_s, user="ann")
        self.happen(WorkloadSubmitted(replace(spec, **words), at_s))  # type: ignore[arg-type]

    def start(self, name: str, *devices: int, at_s: float, index: int = 0) -> PodKey:
        """A pod runs."""
        pod = PodKey(name, 0, index)
        self.happen(PodAssigned(Placement(pod, "node", devices), at_s))
        return pod

    def stop(self, pod: PodKey, at_s: float) -> None:
        """A pod is gone."""
        self.happen(PodStopped(pod, at_s, 0.0))


def of_node(samples: UsageSamples, node: str = "node") -> UsageSample:
    """The one line of a node."""
    (sample,) = [use for use in samples.uses if use.node == node]
    return sample


def test_job_of_a_second_counts() -> None:
    """Waiting until it starts, then held until it is gone; nothing of it is left after that."""
    metered = Metered()
    metered.submit("job", 10.0)
    pod = metered.start("job", 3, at_s=14.5)
    metered.happen(PodStopping(pod, 15.0))
    metered.stop(pod, 15.5)
    metered.happen(WorkloadEnded("job", WorkloadOutcome.SUCCEEDED, 15.5))
    samples = metered.meter.take(60.0)
    assert (samples.since_s, samples.until_s) == (0.0, 60.0)
    assert of_node(samples) == UsageSample("team", "lab", "ann", "train", "node", allocated_gpu_s=1.0)
    assert of_node(samples, "").waiting_s == 4.5
    (workload,) = samples.workloads
    assert (workload.uid, workload.allocated_gpu_s) == (1, 1.0)
    (device,) = samples.devices
    assert (device.device, device.allocated_gpu_s) == (3, 1.0)
    assert metered.meter.take(120.0) == UsageSamples(60.0, 120.0, [], [], [])


def test_over_quota_is_what_is_above_it() -> None:
    """Spread over the preemptible ones; those that aren't preemptible are never over."""
    metered = Metered()
    for index, preemptible in enumerate((True, True, True, False)):
        metered.submit(f"job-{index}", preemptible=preemptible)
        metered.start(f"job-{index}", index, at_s=10.0 * index)
    samples = metered.meter.take(40.0)
    over = {sample.uid: sample.over_quota_gpu_s for sample in samples.workloads}
    # from 20 s on three hold 3 of 2, from 30 s on four hold 4 of 2
    assert over == {1: pytest.approx(10), 2: pytest.approx(10), 3: pytest.approx(10), 4: 0.0}
    assert of_node(samples).over_quota_gpu_s == pytest.approx(30.0)
    metered.happen(QueuesSet((Queue("team", quota={"gpu": 4000}),)))
    assert of_node(metered.meter.take(50.0)).over_quota_gpu_s == 0.0


def test_use_counts_for_the_time_since_it_was_measured() -> None:
    """Unmeasured use is unknown."""
    metered = Metered()
    metered.submit("job", request=Request(devices=2))
    metered.start("job", 0, 1, at_s=10.0)
    metered.meter.used("job", "node", 0.5, 20.0)
    metered.meter.used("job", "node", 7.0, 30.0)
    metered.meter.used("job", "node", 0.0, 25.0)
    metered.meter.used("nobody", "node", 1.0, 30.0)
    metered.meter.device_used("node", 0, 0.25, 5, 40.0)
    metered.meter.device_used("node", 0, 0.25, 3, 60.0)
    samples = metered.meter.take(60.0)
    use = of_node(samples)
    assert (use.allocated_gpu_s, use.seen_gpu_s, use.used_gpu_s) == (100.0, 40.0, 30.0)
    assert [
        (device.device, device.allocated_gpu_s, device.used_gpu_s, device.memory_max)
        for device in samples.devices
    ] == [
        (0, 50.0, 15.0, 5),
        (1, 50.0, 0.0, 0),
    ]


def test_time_counts_for_the_state_that_was_measured() -> None:
    metered = Metered()
    metered.submit("job", request=Request(devices=2))
    metered.start("job", 0, 1, at_s=10.0)
    for at_s, state in (
        (20.0, None),
        (40.0, Activity.WORKING),
        (45.0, Activity.STARVED),
        (55.0, Activity.PARKED),
        (70.0, Activity.LEFT),
        (75.0, Activity.UNKNOWN),
        (80.0, Activity.WORKING),
    ):
        metered.meter.used("job", "node", 0.5, at_s, state)
    use = of_node(metered.meter.take(90.0))
    states = (use.working_gpu_s, use.starved_gpu_s, use.parked_gpu_s, use.left_gpu_s)
    assert states == (50.0, 10.0, 20.0, 30.0)
    assert sum(states) <= use.seen_gpu_s == 140.0
    again = of_node(metered.meter.take(100.0))
    assert again.working_gpu_s == 0.0


def test_shares_count_as_shares() -> None:
    """A share of a device counts as a share."""
    metered = Metered()
    for name in ("a", "b"):
        metered.submit(name, request=Request(devices=1, share_milli=250))
        metered.start(name, 0, at_s=0.0)
    samples = metered.meter.take(100.0)
    assert of_node(samples).allocated_gpu_s == 50.0
    assert [device.allocated_gpu_s for device in samples.devices] == [50.0]


def test_who_is_held_back_doesnt_wait() -> None:
    """A pending workload waits for capacity."""
    metered = Metered()
    metered.submit("job", 0.0)
    metered.submit("tick", 10.0)
    metered.happen(WorkloadSuspended("job", True, "by ann"))
    metered.submit("tock", 30.0)
    metered.happen(WorkloadSuspended("job", False))
    assert of_node(metered.meter.take(40.0), "").waiting_s == 10 + 10 + 30 + 10
    assert of_node(metered.meter.take(50.0), "").waiting_s == 30


def test_gang_is_preempted_once_each_time() -> None:
    """However many pods it has; stops that no plan ordered aren't preemptions."""
    metered = Metered()
    metered.submit("job", pods=2)
    cause = EvictionCause(EvictionRule.PREEMPT, "other", "it comes first")
    for turn in range(2):
        pods = [metered.start("job", index, at_s=10.0 * turn, index=index) for index in range(2)]
        metered.happen(*(PodStopping(pod, 10.0 * turn + 5, cause) for pod in pods))
        for pod in pods:
            metered.stop(pod, 10.0 * turn + 6)
    pod = metered.start("job", 0, at_s=30.0)
    metered.happen(PodStopping(pod, 31.0))
    assert of_node(metered.meter.take(60.0)).preempted == 2


def test_work_during_a_break_of_the_server_is_counted_once() -> None:
    """From where the last one stopped counting, though it started before."""
    metered = Metered(since_s=1000.0)
    metered.submit("job", 500.0)
    metered.start("job", 0, at_s=600.0)
    metered.submit("done", 500.0)
    pod = metered.start("done", 1, at_s=600.0)
    metered.stop(pod, 1500.0)
    metered.happen(WorkloadEnded("done", WorkloadOutcome.SUCCEEDED, 1500.0))
    samples = metered.meter.take(2000.0)
    assert {sample.uid: sample.allocated_gpu_s for sample in samples.workloads} == {1: 1000.0, 2: 500.0}
    assert not [use for use in samples.uses if use.waiting_s]


def test_next_of_a_name_is_another() -> None:
    """Within a minute, too."""
    metered = Metered()
    for turn in range(2):
        metered.submit("job", 10.0 * turn)
        pod = metered.start("job", 0, at_s=10.0 * turn)
        metered.stop(pod, 10.0 * turn + 5)
        metered.happen(WorkloadEnded("job", WorkloadOutcome.STOPPED, 10.0 * turn + 5))
        metered.uids["job"] = 0
        metered.uids[f"filler-{turn}"] = 0
    samples = metered.meter.take(60.0)
    assert len({sample.uid for sample in samples.workloads}) == 2
    assert of_node(samples).allocated_gpu_s == 10.0
