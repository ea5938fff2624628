"""Eligibility kept from one cycle to the next."""

from weir.engine.preemption_cache import Eligibility, KeptEligibility
from weir.state.versions import versions_of

_NEVER_S = float("inf")


def _eligibility(until_s: float = _NEVER_S) -> Eligibility:
    return Eligibility(until_s, preemptors=[], movers=[])


def test_projects_are_outdated_until_they_are_kept_for_their_version() -> None:
    """A project whose plan may not be carried out counts as changed in the next cycle."""
    touched, kept = versions_of(3), KeptEligibility(3)
    assert kept.outdated(touched, 0.0) == [0, 1, 2]
    for project in range(3):
        kept.keep(project, touched[project], _eligibility())
    assert kept.outdated(touched, 1e9) == []
    touched[1] += 1
    kept.forget([2])
    assert kept.outdated(touched, 0.0) == [1, 2]


def test_projects_are_outdated_when_patience_gives_a_workload_options() -> None:
    """Without pending workloads time changes nothing."""
    touched, kept = versions_of(2), KeptEligibility(2)
    kept.keep(0, 0, _eligibility(until_s=10.0))
    kept.keep(1, 0, _eligibility(until_s=20.0))
    assert kept.outdated(touched, 9.0) == []
    assert kept.outdated(touched, 10.0) == [0]
    assert kept.outdated(touched, 20.0) == [0, 1]
    kept.keep(0, 0, None)
    kept.keep(1, 0, None)
    assert kept.outdated(touched, 20.0) == []


def test_branch_leaves_what_is_kept_alone() -> None:
    """Both begin with the same."""
    touched, kept = versions_of(2), KeptEligibility(2)
    for project in range(2):
        kept.keep(project, 0, _eligibility())
    branch = kept.branch()
    assert branch.outdated(touched, 0.0) == []
    branch.keep(0, 7, None)
    assert kept.outdated(touched, 0.0) == []
