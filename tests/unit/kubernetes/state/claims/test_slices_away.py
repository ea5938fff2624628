"""Nodes whose DRA driver is away while Weir starts: their running pods keep their GPUs, and none is given twice."""

from random import Random

import msgspec
import pytest
from tests.unit.kubernetes.small_world import pod
from tests.unit.kubernetes.state.claims.claims_site import Site, slices_of
from tests.unit.kubernetes.state.claims.test_resource_claims import GPU, device_class, gpus_of, why
from tests.unit.kubernetes.state.workloads.test_allocations import held

from weir.engine.overcommit import GRACE_S
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.resource_objects import ResourceSlice
from weir.kubernetes.writes.operations import Evict


def mixed() -> Site:
    """Return a site with two whole GPUs and a shared one on each of two nodes, most of them in use."""
    site = Site(slices_of("n1"), slices_of("n2"))
    site.create(("a", 1), ("b", 2), ("c", 0), ("d", 0))
    site.run()
    assert set(site.records) == {"a", "b", "c", "d"}
    return site


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("away", [("n1",), ("n2",), ("n1", "n2")])
def test_pods_of_nodes_whose_slices_come_back_later_keep_their_gpus(
    away: tuple[str, ...], records: bool
) -> None:
    site = mixed()
    site.start(away=away, records=records)
    assert site.run() == {}
    site.agrees()
    site.bring_slices()
    site.create(("e", 0), ("f", 1), ("g", 1))
    given = site.run()
    site.agrees()
    assert set(given) == {"e", "f"}, why(site.weir)
    site.end("b")
    assert set(site.run()) == {"g"}
    site.agrees()
    assert len(site.given_once()) == 3


def test_running_pods_are_not_lost_when_slices_come_back() -> None:
    site = mixed()
    site.start(away=("n1", "n2"))
    site.run()
    before = held(site.weir)
    site.bring_slices()
    site.run()
    assert site.lost() == []
    assert held(site.weir) == before


def test_pods_run_on_however_long_the_slices_are_away() -> None:
    site = mixed()
    site.start(away=("n1", "n2"))
    site.run()
    written = site.weir.step(after_s=GRACE_S + 1) + site.weir.step(after_s=GRACE_S + 1)
    assert not [each for each in written if isinstance(each, Evict)]
    site.agrees()


def test_slices_that_go_and_come_back_while_weir_runs_change_nothing() -> None:
    for restarted in (False, True):
        site = mixed()
        if restarted:
            site.start()
            site.run()
        before = held(site.weir)
        site.facts.clear()
        site.take_slices("n1", "n2")
        site.create(("e", 1))
        assert site.run() == {}
        site.agrees()
        site.bring_slices()
        assert set(site.run()) == {"e"}
        site.agrees()
        assert site.lost() == []
        assert {name: held(site.weir)[name] for name in before} == before


@pytest.mark.parametrize("restarted", [True, False])
def test_a_node_whose_slice_shrinks_has_its_real_number_of_gpus_once_its_pods_end(restarted: bool) -> None:
    site = Site(gpus_of("n1", 4))
    site.create(("a", 1), ("b", 1), ("c", 1), ("d", 1))
    site.run()
    site.slices = {each.metadata.name: each for each in [gpus_of("n1", 2)]}
    if restarted:
        site.start()
    site.bring_slices()
    site.run()
    site.agrees()
    assert site.gpus() == 4
    assert not site.lost()
    site.create(("e", 1))
    assert site.run() == {}, "both GPUs that are left are in use"
    site.end("a", "b", "c", "d")
    assert set(site.run()) == {"e"}
    assert site.gpus() == 2
    site.agrees()


def test_devices_that_come_back_by_other_names_are_not_given_to_more_pods_than_there_are() -> None:
    site = Site(gpus_of("n1", 2))
    site.create(("a", 1), ("b", 1))
    site.run()
    site.start(away=("n1",))
    site.run()
    site.slices = {
        each.metadata.name: msgspec.convert(
            msgspec.json.decode(msgspec.json.encode(each).replace(b"gpu-", b"new-")), ResourceSlice
        )
        for each in site.slices.values()
    }
    site.bring_slices()
    site.create(("c", 1))
    assert site.run() == {}
    site.end("a")
    assert set(site.run()) == {"c"}
    site.agrees()


def test_a_claim_that_goes_while_weir_is_away_costs_only_its_own_pod() -> None:
    site = mixed()
    del site.claims["a"]
    site.start(away=("n1", "n2"))
    site.run()
    site.bring_slices()
    site.create(("e", 0))
    assert set(site.run()) == {"e"}
    site.agrees()
    assert "pod" not in why(site.weir)


def test_a_class_that_comes_back_with_its_driver_finds_the_pods_where_they_were() -> None:
    site = mixed()
    site.start(away=("n1", "n2"))
    site.weir.backend.deliver("deviceclasses")([ObjectRemoved(GPU, "")])
    site.run()
    written = site.weir.step(after_s=GRACE_S + 1) + site.weir.step(after_s=GRACE_S + 1)
    assert not [each for each in written if isinstance(each, Evict)]
    site.agrees()
    site.weir.hear("deviceclasses", device_class())
    site.bring_slices()
    site.create(("e", 0), ("f", 1), ("g", 1))
    assert set(site.run()) == {"e", "f"}
    site.agrees()


def test_a_pod_with_an_extended_resource_does_not_go_where_a_driver_is_away() -> None:
    site = mixed()
    site.end("a")
    site.start(away=("n1", "n2"))
    site.weir.hear("pods", pod("whole", gpus=1))
    assert site.run() == {}
    site.agrees()


def test_a_class_that_goes_and_comes_back_while_weir_runs_changes_nothing() -> None:
    site = mixed()
    site.start()
    site.run()
    before = held(site.weir)
    site.facts.clear()
    site.weir.backend.deliver("deviceclasses")([ObjectRemoved(GPU, "")])
    site.take_slices("n1", "n2")
    site.run()
    site.agrees()
    site.weir.hear("deviceclasses", device_class())
    site.run()
    site.bring_slices()
    site.run()
    site.agrees()
    assert site.lost() == []
    assert held(site.weir) == before


@pytest.mark.parametrize("seed", range(60))
def test_state_and_engine_agree_in_every_order_of_restarts_and_slices(seed: int) -> None:
    chance = Random(seed)
    site = Site(slices_of("n1"), slices_of("n2"))
    for at in range(25):
        away = chance.choice(((), ("n1",), ("n2",), ("n1", "n2")))
        match chance.choice(("create", "create", "end", "start", "take", "bring", "bring")):
            case "create":
                site.create((f"p{at}", chance.choice((0, 0, 1, 2))))
            case "end" if site.records:
                site.end(chance.choice(sorted(site.records)))
            case "start":
                site.start(away=away, records=chance.random() < 0.8)
            case "take":
                site.take_slices(*away)
            case _:
                site.bring_slices()
        site.run()
        site.agrees()
        site.given_once()
    site.bring_slices()
    site.end(*site.records)
    while site.run():
        site.agrees()
        site.given_once()
        site.end(*site.records)
    assert not site.pods, why(site.weir)
