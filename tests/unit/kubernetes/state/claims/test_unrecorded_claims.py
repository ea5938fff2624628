"""Pods with resource claims that Weir bound, and of which it was killed before it wrote their record."""

from collections.abc import Sequence

import pytest
from tests.unit.kubernetes.state.claims.claims_site import Site, slices_of
from tests.unit.kubernetes.state.claims.test_resource_claims import GPU, device_class, why
from tests.unit.kubernetes.state.workloads.test_allocations import record

from weir.kubernetes.api.changes import ObjectRemoved

PARTS = tuple(f"part-{at}" for at in range(4))


def full() -> Site:
    """Return a site where one whole GPU of four is in use, and all of the shared one."""
    site = Site(slices_of("n1", 4))
    site.create(("first", 1), *((name, 0) for name in PARTS))
    site.run()
    assert set(site.records) == {"first", *PARTS}
    return site


def has_all_it_has(site: Site) -> None:
    """Assert that all four whole GPUs can be given, two by two, once the first pod has ended."""
    site.create(("last", 2), ("next", 2))
    assert set(site.run()) == {"last"}
    site.end("first")
    assert set(site.run()) == {"next"}, why(site.weir)
    site.agrees()


@pytest.mark.parametrize(
    "unwritten", [("part-3",), ("part-0",), PARTS[:2], PARTS, ("first",), ("first", *PARTS)]
)
@pytest.mark.parametrize("restarts", [1, 2])
def test_shares_whose_records_were_not_written_stay_together_once_their_driver_is_back(
    unwritten: Sequence[str], restarts: int
) -> None:
    site = full()
    for name in unwritten:
        del site.records[name]
    for _ in range(restarts):
        site.start(away=("n1",))
        site.run()
        site.agrees()
        site.record()
        assert not site.records.keys() & set(unwritten), "what is guessed isn't recorded"
    site.bring_slices()
    site.run()
    site.record()
    assert site.records.keys() == {"first", *PARTS}
    assert {tuple(site.records[name].devices) for name in PARTS} == {(1,)}
    assert {site.records[name].share for name in PARTS} == {250}
    assert site.gpus() == 5
    has_all_it_has(site)


def test_a_share_joins_the_others_of_its_device_where_its_annotation_names_another_place() -> None:
    site = full()
    del site.records["part-3"]
    site.pods["part-3"].metadata.annotations["weir.dev/gpus"] = "2"
    site.start()
    site.run()
    site.record()
    assert {tuple(site.records[name].devices) for name in PARTS} == {(1,)}
    has_all_it_has(site)


def test_whole_gpus_that_were_guessed_beyond_those_of_the_node_are_settled_again() -> None:
    site = Site(slices_of("n1", 4))
    site.create(*((name, 0) for name in PARTS), ("whole", 2))
    site.run()
    site.records.clear()
    site.start(away=("n1",))
    site.run()
    assert site.gpus() > 5, "each share counts as a GPU for as long as its part is unknown"
    site.bring_slices()
    site.run()
    site.agrees()
    assert site.gpus() == 5
    site.create(("other", 2))
    assert set(site.run()) == {"other"}, why(site.weir)


def test_a_share_whose_record_is_older_than_its_start_runs_on_once_its_driver_is_back() -> None:
    """Control takes a start for settled whose number is no higher than those that it recovered."""
    site = full()
    del site.records["part-3"]
    site.pods["part-3"].metadata.annotations["weir.dev/start"] = "13"
    site.start(away=("n1",))
    site.weir.hear("workloads", record("pod-part-3", "u-part-3"))
    site.run()
    site.bring_slices()
    site.run()
    assert [each.sentence for each in site.lost()] == ["The devices of its claims are known now."]
    site.agrees()
    has_all_it_has(site)


def test_a_share_keeps_its_place_by_what_was_recorded_of_it_as_of_a_pod_that_bound_itself() -> None:
    site = full()
    del site.records["part-3"]
    site.start()
    site.run()
    site.record()
    assert site.records["part-3"].self_bound
    site.start(away=("n1",))
    site.run()
    site.record()
    assert (site.records["part-3"].devices, site.records["part-3"].share) == ([1], 250)
    site.bring_slices()
    has_all_it_has(site)


def test_a_share_without_a_record_finds_its_place_after_its_class_was_away_too() -> None:
    site = full()
    for name in PARTS:
        del site.records[name]
    site.start(away=("n1",))
    site.weir.backend.deliver("deviceclasses")([ObjectRemoved(GPU, "")])
    site.run()
    site.record()
    site.weir.hear("deviceclasses", device_class())
    site.run()
    site.record()
    site.bring_slices()
    has_all_it_has(site)


def test_a_share_finds_its_place_by_slices_of_another_node_before_its_own_are_back() -> None:
    site = Site(slices_of("n1", 4), slices_of("n2", 4))
    site.create(("first", 1), *((name, 0) for name in PARTS))
    site.run()
    del site.records["part-3"]
    site.start(away=("n1", "n2"))
    site.run()
    site.record()
    (there,) = {each.node for name, each in site.records.items()}
    (other,) = {"n1", "n2"} - {there}
    site.weir.hear("resourceslices", *(each for each in site.slices.values() if each.spec.node_name == other))
    site.run()
    site.record()
    site.agrees()
    site.bring_slices()
    site.run()
    site.record()
    assert {tuple(site.records[name].devices) for name in PARTS} == {(1,)}


def test_a_share_whose_number_another_pod_has_joins_the_others_without_any_record() -> None:
    site = full()
    for name, number in (("first", "0"), *((name, "2") for name in PARTS[:3]), ("part-3", "0")):
        site.pods[name].metadata.annotations["weir.dev/gpus"] = number
    site.start(records=False)
    site.weir.step()
    by_key = site.weir.backend.cluster_state.pods.by_key
    assert {by_key[f"team/{name}"].devices for name in PARTS} == {(2,)}
