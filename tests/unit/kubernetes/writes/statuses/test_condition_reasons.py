"""Each reason of a condition of pending pods is in the table of the troubleshooting page, and no other."""

import re
from pathlib import Path

import pytest

from weir.api.answers import Explanation
from weir.control.port import LifecycleRule
from weir.kubernetes.writes.statuses.condition_reasons import all_condition_reasons, condition_reason
from weir.model.reasons import EvictionRule, ReasonCode

PAGE = Path(__file__).parents[5] / "docs" / "how-to" / "kubernetes" / "troubleshooting.md"


def test_the_troubleshooting_page_lists_the_reasons_that_are_written() -> None:
    table = PAGE.read_text().partition("| reason of the condition |")[2].partition("\n\n")[0]
    listed = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert sorted(listed) == sorted(all_condition_reasons())


@pytest.mark.parametrize("code", [*sorted(ReasonCode), *EvictionRule, *LifecycleRule])
def test_each_code_has_a_listed_reason(code: str) -> None:
    listed = set(all_condition_reasons())
    for numbers in ({}, {"over_quota": True}, {"known": ["rack"]}):
        assert condition_reason(Explanation(why=code, sentence="", numbers=numbers)) in listed


@pytest.mark.parametrize("rule", [EvictionRule.RECLAIM_QUOTA, LifecycleRule.GANG_FAILED])
def test_a_stopped_workload_without_a_new_decision_says_so(rule: str) -> None:
    assert condition_reason(Explanation(why=rule, sentence="")) == "Stopped"
