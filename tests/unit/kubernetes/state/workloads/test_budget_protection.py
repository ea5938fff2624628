"""Work that its PodDisruptionBudget protects: it may not borrow, and its protection of borrowed GPUs lapses."""

from tests.unit.kubernetes.budget_site import EVERYONE, Site, budget
from tests.unit.kubernetes.small_world import job, node, pod, project

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.writes.operations import Bind
from weir.model.policy import BudgetPolicy


def test_work_that_can_never_be_evicted_may_not_borrow() -> None:
    site = Site()
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, maxUnavailable=0))
    site.hear("owners", job("a", "j-a", namespace="ta"))
    site.hear("pods", pod("a-0", owner=("a", "j-a"), namespace="ta", gpus=4, labels={"app": "a"}))
    site.step()
    assert not site.control.cluster.jobs["ta/job-a"].preemptible
    assert not [each for each in site.writes if isinstance(each, Bind)]
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, maxUnavailable=1))
    site.step()
    assert site.control.cluster.jobs["ta/job-a"].preemptible
    assert [each for each in site.writes if isinstance(each, Bind)]


def test_running_work_counts_as_non_preemptible_after_the_grace_period(site: Site) -> None:
    site.hear("projects", project("ta", gpus=8), project("tb", gpus=4))
    site.hear("poddisruptionbudgets", budget(selector={"matchLabels": {"app": "a"}}, maxUnavailable=0))
    site.step()
    cluster = site.control.cluster
    assert cluster.jobs["ta/job-a"].preemptible
    due_s = site.backend.due_s
    assert due_s is not None
    assert due_s <= site.now_s + 600.0
    site.step(601.0)
    assert not cluster.jobs["ta/job-a"].preemptible
    assert cluster.jobs["ta/job-b"].preemptible
    site.hear("projects", project("ta", gpus=4), project("tb", gpus=4))
    site.asks()
    assert [each.name for each in site.step()] == ["b-0"]
    site.backend.deliver("poddisruptionbudgets")([ObjectRemoved("ta/b", "b-b")])
    site.step()
    assert cluster.jobs["ta/job-a"].preemptible


def test_policy_that_overrides_evicts_all_the_same_after_the_grace_period() -> None:
    site = Site(BudgetPolicy(borrowed="override", grace=60.0))
    site.runs("a", "n1")
    site.runs("b", "n2")
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, maxUnavailable=0))
    site.asks()
    assert site.step() == []
    assert site.control.wakes_s is not None
    (evict,) = site.step(61.0)
    assert evict.overrides


def lapsing() -> Site:
    """Return a site where both workloads hold their project's borrowed GPUs under a budget that came later."""
    site = Site()
    site.runs("a", "n1")
    site.runs("b", "n2")
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, maxUnavailable=0))
    return site


def test_budget_written_after_borrowing_protects_for_the_grace_period_alone() -> None:
    site = lapsing()
    site.asks()
    assert site.step() == [], "the budget came a moment ago"
    (evict,) = site.step(601.0)
    assert evict.overrides
    jobs = site.control.cluster.jobs
    assert jobs["ta/job-a"].spec.lapsed or jobs["ta/job-b"].spec.lapsed


def test_work_within_its_quota_keeps_the_protection_of_its_budget() -> None:
    site = lapsing()
    site.hear("projects", project("ta", "ta", gpus=8), project("tb", "tb", gpus=8))
    site.step(601.0)
    assert not any(job.spec.lapsed for job in site.control.cluster.jobs.values())
    site.asks()
    assert site.step() == []


def test_policy_that_respects_budgets_leaves_what_was_borrowed() -> None:
    site = Site(BudgetPolicy(borrowed="respect"))
    site.runs("a", "n1")
    site.runs("b", "n2")
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, maxUnavailable=0))
    site.step()
    site.asks()
    assert site.step(601.0) == []
    assert not any(job.spec.lapsed for job in site.control.cluster.jobs.values())


def test_budget_that_allows_some_evictions_is_not_overridden() -> None:
    site = Site()
    for name in ("a", "b"):
        site.runs(name, "n1" if name == "a" else "n2")
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, maxUnavailable=1, healthy=(2, 2, 2)))
    site.asks()
    assert site.step(601.0) == []


def test_changed_settings_hold_for_the_budgets_that_are_there() -> None:
    site = Site()
    site.hear("poddisruptionbudgets", budget(selector=EVERYONE, maxUnavailable=0))
    site.hear("owners", job("a", "j-a", namespace="ta"))
    site.hear("pods", pod("a-0", owner=("a", "j-a"), namespace="ta", gpus=4, labels={"app": "a"}))
    site.step()
    assert not site.control.cluster.jobs["ta/job-a"].preemptible
    site.backend.set_budget_rules(BudgetPolicy(borrowed="override"))
    site.step()
    assert site.control.cluster.jobs["ta/job-a"].preemptible


def test_lapsed_protection_lets_nothing_more_start_over_quota() -> None:
    """Otherwise an elastic workload would grow by what its budget makes hard to take back."""
    site = lapsing()
    site.hear("nodes", node("n3"))
    site.hear("owners", job("a", "j-a", 2, namespace="ta", min_pods="1"))
    site.step()
    site.step(601.0)
    assert site.control.cluster.jobs["ta/job-a"].spec.lapsed
    site.hear("pods", pod("a-1", owner=("a", "j-a"), namespace="ta", gpus=4, labels={"app": "a"}))
    site.step()
    assert not [each for each in site.writes if isinstance(each, Bind)]
    site.hear("projects", project("ta", "ta", gpus=12), project("tb", "tb", gpus=4))
    site.step()
    assert [each.name for each in site.writes if isinstance(each, Bind)] == ["a-1"], "its quota covers it"
