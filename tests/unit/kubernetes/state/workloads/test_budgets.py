"""PodDisruptionBudgets of a cluster: the pods they cover, what they allow, and refused evictions."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.budget import examples
from tests.unit.kubernetes.budget_site import EVERYONE, NOT_A, REFUSED, Site, budget
from tests.unit.kubernetes.small_world import node, project

from weir.control.loop import Control
from weir.kubernetes.api.budget_objects import PodDisruptionBudget
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.translate.disruption_budgets import BudgetCoverage, allowed_at_best
from weir.kubernetes.writes.operations import EmitEvent, WriteDone
from weir.model.policy import Policy


def test_pod_is_chosen_that_no_budget_protects(site: Site) -> None:
    site.hear("poddisruptionbudgets", budget(selector={"matchLabels": {"app": "a"}}))
    site.asks()
    assert [each.name for each in site.step()] == ["b-0"]


def test_another_is_chosen_as_soon_as_an_eviction_is_refused(site: Site) -> None:
    site.asks()
    (first,) = site.step()
    assert not first.insists
    site.backend.take_outcome(first, REFUSED)
    (second,) = site.step()
    assert {first.name, second.name} == {"a-0", "b-0"}
    assert site.backend.check(second) == ""
    refused = site.control.cluster.jobs[f"ta/job-{first.name[0]}"]
    assert refused.running_pods()
    assert refused.started_s is not None


def test_stale_budget_is_not_tried_twice_and_is_believed_again_once_it_changes(site: Site) -> None:
    """Both pods are in one budget whose status still allows an eviction that the API refuses."""
    site.hear("poddisruptionbudgets", budget(allowed=1, selector=EVERYONE, healthy=(2, 1, 2)))
    site.asks()
    (first,) = site.step()
    site.backend.take_outcome(first, REFUSED)
    assert site.step() == []
    assert site.allowed() == {"ta/b": 0}
    assert site.step(1.0) == []
    site.hear("poddisruptionbudgets", budget(allowed=1, selector=EVERYONE, healthy=(2, 1, 2)))
    (second,) = site.step()
    assert second.name != first.name, "one that was refused a moment ago isn't asked again"


def test_refusing_budget_is_believed_again_after_a_while(site: Site) -> None:
    site.hear("poddisruptionbudgets", budget(allowed=1, selector=EVERYONE, healthy=(2, 1, 2)))
    site.asks()
    (first,) = site.step()
    site.backend.take_outcome(first, REFUSED)
    assert site.step() == []
    due_s = site.backend.due_s
    assert due_s is not None
    assert due_s <= site.now_s + 10.0
    assert len(site.step(10.1)) == 1


def test_ordered_evictions_count_before_the_status_shows_them(site: Site) -> None:
    several = {"selector": EVERYONE, "healthy": (2, 1, 2)}
    site.hear("poddisruptionbudgets", budget(allowed=1, **several))
    site.asks()
    (evict,) = site.step()
    site.step()
    assert site.allowed() == {"ta/b": 0}
    site.backend.take_outcome(evict, WriteDone())
    site.step()
    assert site.allowed() == {"ta/b": 0}, "accepted, and the status isn't seen yet"
    site.hear("poddisruptionbudgets", budget(allowed=0, disrupted=[evict.name], **several))
    site.step()
    assert site.allowed() == {"ta/b": 0}
    site.hear("poddisruptionbudgets", budget(allowed=1, **several))
    site.step()
    assert site.allowed() == {"ta/b": 1}


def test_eviction_is_not_sent_once_it_is_not_needed(site: Site) -> None:
    site.asks()
    (evict,) = site.step()
    assert site.backend.check(evict) == ""
    site.backend.deliver("pods")([ObjectRemoved("tb/back-0", "u-back-0")])
    site.backend.deliver_owners()([ObjectRemoved("back", "j-back")])
    site.step(61.0)
    assert "doesn't need the capacity" in site.backend.check(evict)


def test_pod_in_several_budgets_cannot_go_as_the_api_evicts_none(site: Site) -> None:
    for name in ("one", "two"):
        found = budget(name, 1, selector={"matchLabels": {"app": "a"}})
        site.hear("poddisruptionbudgets", found)
    site.asks()
    assert [each.name for each in site.step()] == ["b-0"]
    assert site.protected("a") == ("ta/one+two",)


@pytest.mark.parametrize(
    ("healthy", "policy", "free"),
    [((1, 1, 2), "", True), ((0, 1, 2), "", False), ((0, 1, 2), "AlwaysAllow", True), ((0, 0, 1), "", False)],
)
def test_unhealthy_pods_go_as_the_budget_says(healthy: tuple[int, int, int], policy: str, free: bool) -> None:
    site = Site()
    site.runs("a", "n1", ready=False)
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, healthy=healthy, policy=policy))
    site.asks()
    site.step()
    assert site.protected("a") == (() if free else ("ta/b",))


def test_pod_that_has_not_started_counts_against_no_budget() -> None:
    site = Site()
    site.runs("a", "n1", ready=False, phase="Pending")
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE))
    site.step()
    assert site.protected("a") == ()
    site.runs("a", "n1")
    site.step()
    assert site.protected("a") == ("ta/b",)


def test_a_new_control_hears_of_all_budgets(site: Site) -> None:
    site.hear("poddisruptionbudgets", budget(selector={"matchLabels": {"app": "a"}}))
    site.step()
    before = site.allowed(), site.protected("a"), site.protected("b")
    site.backend.connect()
    site.control = Control(site.backend, Policy(), lambda: site.now_s)
    site.step()
    assert (site.allowed(), site.protected("a"), site.protected("b")) == before


def test_changed_selectors_labels_and_budgets_that_go_are_followed(site: Site) -> None:
    site.hear("poddisruptionbudgets", budget(selector={"matchLabels": {"app": "a"}}))
    site.step()
    assert (site.protected("a"), site.protected("b")) == (("ta/b",), ())
    other = [{"key": "app", "operator": "NotIn", "values": ["a"]}]
    site.hear("poddisruptionbudgets", budget(selector={"matchExpressions": other}))
    site.step()
    assert (site.protected("a"), site.protected("b")) == ((), ("ta/b",))
    site.runs("b", "n2", app="a")
    site.step()
    assert site.protected("b") == ()
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE), budget("none"))
    site.step()
    assert (site.protected("a"), site.protected("b")) == (("ta/b",), ("ta/b",))
    site.hear("poddisruptionbudgets", budget(namespace="tb", selector=EVERYONE))
    site.backend.deliver("poddisruptionbudgets")([ObjectRemoved("ta/b", "b-b")])
    site.step()
    assert (site.protected("a"), site.protected("b")) == ((), ())
    assert site.allowed() == {}


@pytest.mark.parametrize(
    "found", [budget(allowed=1, observed=0), budget(allowed=-3), budget(allowed=1, generation=7)]
)
def test_status_that_lags_or_makes_no_sense_allows_nothing(site: Site, found: PodDisruptionBudget) -> None:
    found.spec.selector = msgspec.convert({}, type(budget(selector=EVERYONE).spec.selector))
    site.hear("poddisruptionbudgets", found)
    site.asks()
    assert site.step() == []


@pytest.mark.parametrize(
    ("spec", "expected", "best"),
    [
        ({"maxUnavailable": 0}, 5, 0),
        ({"maxUnavailable": "0%"}, 5, 0),
        ({"maxUnavailable": "30%"}, 5, 2),
        ({"maxUnavailable": 9}, 5, 5),
        ({"minAvailable": "100%"}, 5, 0),
        ({"minAvailable": "50%"}, 1, 0),
        ({"minAvailable": 1}, 1, 0),
        ({"minAvailable": 1}, 3, 2),
        ({"minAvailable": 9}, 3, 0),
        ({"minAvailable": "many"}, 3, 3),
    ],
)
def test_evictions_that_a_budget_allows_at_best(spec: dict[str, Any], expected: int, best: int) -> None:
    assert allowed_at_best(budget(healthy=(0, 0, expected), **spec), 1) == best


def test_budgets_are_found_by_the_labels_of_a_pod() -> None:
    """A thousand budgets of one namespace are one look for each label of a pod."""
    coverage = BudgetCoverage()
    for at in range(1000):
        coverage.add(f"ta/b{at}", budget(selector={"matchLabels": {"app": f"a{at}"}}).spec.selector)
    assert coverage.budgets_for({"app": "a7", "x": "y"}) == ("ta/b7",)
    assert coverage.budgets_for({}) == ()
    for at in range(1000):
        coverage.drop(f"ta/b{at}")
    assert not coverage
    assert not coverage._by_label


def test_people_hear_of_a_refused_eviction(site: Site) -> None:
    site.asks()
    (evict,) = site.step()
    site.backend.tell_people(site.now_s)
    site.backend.take_outcome(evict, REFUSED)
    site.step()
    for _ in range(5):
        site.now_s += 2.0
        site.backend.tell_people(site.now_s)
    assert site.cluster_state.registry.named["ta/job-" + evict.name[0]].reported is not None
    assert not any(isinstance(each, EmitEvent) and each.reason == "HeldUp" for each in site.writes)


@examples(40)
@given(st.permutations(range(8)), st.integers(0, 255))
def test_budgets_and_pods_may_be_heard_of_in_any_order(order: list[int], steps: int) -> None:
    site = Site()
    heard = [
        lambda: site.runs("a", "n1"),
        lambda: site.runs("b", "n2", ready=False),
        lambda: site.hear("poddisruptionbudgets", budget("a", 1, selector={"matchLabels": {"app": "a"}})),
        lambda: site.hear("poddisruptionbudgets", budget("b", selector=NOT_A, healthy=(0, 1, 1))),
        lambda: site.hear("poddisruptionbudgets", budget("gone", selector=EVERYONE)),
        site.asks,
        lambda: site.hear("projects", project("ta", gpus=0)),
        lambda: site.hear("nodes", node("n1"), node("n2")),
    ]
    for place, at in enumerate(order):
        heard[at]()
        if steps >> place & 1:
            site.step()
    site.backend.deliver("poddisruptionbudgets")([ObjectRemoved("ta/gone", "b-gone")])
    site.step()
    site.step()
    assert (site.protected("a"), site.protected("b")) == (("ta/a",), ("ta/b",))
    assert site.allowed()["ta/b"] == 0
    if not site.control.cluster.jobs["ta/job-a"].stopping:  # else it may have been ordered before
        assert site.allowed()["ta/a"] == 1
