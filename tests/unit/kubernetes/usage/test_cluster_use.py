"""States of workloads on a cluster: idle only where everything that could contradict it was measured."""

from collections.abc import Callable

import pytest

from weir.kubernetes.usage.cluster_use import ClusterUse, DeviceSighting, UseClassifier
from weir.kubernetes.usage.held_pods import DeviceHolder
from weir.kubernetes.usage.pod_metrics import DeviceMetrics, PodMetrics
from weir.model.activity import Activity
from weir.model.policy import LifecyclePolicy
from weir.model.workloads import WorkloadType

RULES = LifecyclePolicy()
EVERY_S = 30.0


def pod(
    name: str = "a", *, kind: WorkloadType = WorkloadType.TRAIN, gpus: int = 1, shared: bool = False
) -> DeviceHolder:
    return DeviceHolder("team", name, f"u-{name}", "team/job", kind, "n", tuple(range(gpus)), not shared)


def metrics(
    *uses: float | None, cores: float | None = 0.0, network: float | None = 0.0, disk: float | None = 0.0
) -> PodMetrics:
    devices = tuple(DeviceMetrics(at, f"GPU-{at}", use, use, 1 << 20) for at, use in enumerate(uses))
    return PodMetrics(devices, cores, disk, network)


def after(
    seconds: float,
    held: list[DeviceHolder],
    look: Callable[[float], dict[str, PodMetrics]],
    *,
    ignores_interaction: bool = False,
) -> ClusterUse:
    """Return the use after this time of looks."""
    classifier, use, at_s = UseClassifier(), ClusterUse(), 0.0
    while at_s <= seconds:
        found = {("team", name): each for name, each in look(at_s).items()}
        use = classifier.take(held, found, at_s, RULES, ignores_interaction=ignores_interaction)
        at_s += EVERY_S
    return use


def state(use: ClusterUse) -> Activity | None:
    return use.workloads["team/job"].activity.state


def test_a_workload_that_does_nothing_at_all_is_parked_after_a_window() -> None:
    quiet = {"a": metrics(0.0)}
    assert state(after(RULES.idle_window - EVERY_S, [pod()], lambda _: quiet)) is None
    assert state(after(RULES.idle_window + EVERY_S, [pod()], lambda _: quiet)) is Activity.PARKED


@pytest.mark.parametrize(
    "found",
    [
        metrics(0.0, cores=None),
        metrics(0.0, network=None),
        metrics(None),
        metrics(),
        PodMetrics(),
    ],
    ids=["no processors", "no network", "no use", "no device", "nothing"],
)
def test_what_was_not_measured_leaves_a_quiet_workload_unknown(found: PodMetrics) -> None:
    assert state(after(3600.0, [pod()], lambda _: {"a": found})) is Activity.UNKNOWN


@pytest.mark.parametrize(
    "found", [metrics(0.0, cores=0.5), metrics(0.0, disk=1e6), metrics(0.0, network=1e6)]
)
def test_a_workload_that_reads_its_data_is_starved_not_idle(found: PodMetrics) -> None:
    assert state(after(3600.0, [pod()], lambda _: {"a": found})) is Activity.STARVED


def test_an_hour_without_processors_measured_is_not_made_up_by_one_look_at_the_end() -> None:
    def look(at_s: float) -> dict[str, PodMetrics]:
        return {"a": metrics(0.0, cores=None if at_s < 3600.0 else 0.0)}

    assert state(after(3600.0, [pod()], look)) is not Activity.PARKED


def test_a_gap_in_the_measurements_begins_a_window_again() -> None:
    def look(at_s: float) -> dict[str, PodMetrics]:
        return {} if at_s == 3000.0 else {"a": metrics(0.0)}

    assert state(after(3000.0 + RULES.idle_window - EVERY_S, [pod()], look)) is not Activity.PARKED


def test_people_at_a_build_workload_are_not_known_so_it_is_idle_only_by_the_administrators_word() -> None:
    held, quiet = [pod(kind=WorkloadType.BUILD)], {"a": metrics(0.0)}
    assert state(after(3600.0, held, lambda _: quiet)) is Activity.UNKNOWN
    assert state(after(3600.0, held, lambda _: quiet, ignores_interaction=True)) is Activity.PARKED


def test_one_pod_that_works_keeps_its_gang_working() -> None:
    found = {"a": metrics(0.0), "b": metrics(0.9)}
    assert state(after(3600.0, [pod("a"), pod("b")], lambda _: found)) is Activity.WORKING


def test_one_pod_that_is_not_measured_keeps_its_gang_unknown() -> None:
    found = {"a": metrics(0.0), "b": metrics(0.0, cores=None)}
    assert state(after(3600.0, [pod("a"), pod("b")], lambda _: found)) is Activity.UNKNOWN


def test_a_shared_device_is_unknown_and_no_zero() -> None:
    use = after(3600.0, [pod(shared=True)], lambda _: {"a": metrics(0.0)})
    assert state(use) is Activity.UNKNOWN
    assert use.devices["n", 0] == DeviceSighting(None, None, "unknown")
    assert (use.workloads["team/job"].fraction, use.workloads["team/job"].seen_s) == (None, 0.0)


def test_devices_have_the_use_of_their_pod_and_missing_ones_are_unknown() -> None:
    use = after(60.0, [pod(gpus=3)], lambda _: {"a": metrics(0.25, 0.75)})
    assert [use.devices["n", at].use for at in range(3)] == [0.25, 0.75, None]
    found = use.workloads["team/job"]
    assert (found.fraction, found.seen_s, found.used_s) == (None, 2 * EVERY_S, EVERY_S)


@pytest.mark.parametrize("cores", [0.0, None], ids=["all measured", "processors not measured"])
def test_an_unmeasured_device_of_a_workload_that_works_is_unknown_and_not_quiet(cores: float | None) -> None:
    use = after(3600.0, [pod(gpus=4)], lambda _: {"a": metrics(0.9, 0.0, None, cores=cores)})
    assert [use.devices["n", at].activity for at in range(4)] == ["working", "quiet", "unknown", "unknown"]
    assert use.workloads["team/job"].activity.quiet_devices == ("GPU 1 of a",)


def test_a_device_that_was_measured_for_a_part_of_the_window_is_not_quiet_yet() -> None:
    def look(at_s: float) -> dict[str, PodMetrics]:
        return {"a": metrics(0.9, None if at_s < 3600.0 else 0.0)}

    assert not after(3600.0 + EVERY_S, [pod(gpus=2)], look).workloads["team/job"].activity.quiet_devices
    later = after(3600.0 + RULES.idle_window + EVERY_S, [pod(gpus=2)], look)
    assert later.workloads["team/job"].activity.quiet_devices == ("GPU 1 of a",)


def test_more_devices_than_a_pod_holds_are_those_of_an_earlier_pod_too() -> None:
    use = after(60.0, [pod()], lambda _: {"a": metrics(0.0, 0.9)})
    assert use.devices["n", 0].use is None
    assert state(use) is Activity.UNKNOWN


def test_other_pods_of_a_workload_are_another_run() -> None:
    classifier = UseClassifier()
    for at in range(20):
        found = {("team", "a"): metrics(0.0)}
        use = classifier.take([pod()], found, at * EVERY_S, RULES, ignores_interaction=False)
    assert state(use) is Activity.PARKED
    use = classifier.take([pod("b")], {("team", "b"): metrics(0.0)}, 600.0, RULES, ignores_interaction=False)
    assert state(use) is None
