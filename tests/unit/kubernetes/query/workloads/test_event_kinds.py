"""Kinds of events: the reasons of Events, in the words of a pool's events."""

import pytest

from weir.kubernetes.query.workloads.rows import event_kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Scheduled", "scheduled"),
        ("OverQuota", "over_quota"),
        ("WaitingForEviction", "waiting_for_eviction"),
        ("GPUOvercommitEnded", "gpu_overcommit_ended"),
        ("", ""),
    ],
)
def test_words_of_a_reason_are_told_apart(reason: str, kind: str) -> None:
    assert event_kind(reason) == kind
