"""The rate of writes of a rule, and what a leader that ends in between leaves to the next one."""

from typing import Any, cast

import pytest

from weir.kubernetes.api.errors import ApiUnreachable
from weir.kubernetes.notifications.rule_state import RuleState
from weir.kubernetes.notifications.status_writer import WRITE_EVERY_S, RuleStatusWriter

from .rules import NOW_S, RuleServer, read_rule, rule, running
from .test_rule_state import take


class Rule:
    """A rule in memory and on a server."""

    def __init__(self) -> None:
        self.server = RuleServer(rule())
        self.state = RuleState(read_rule(self.server.rules["hook"]), NOW_S)
        self.writer = RuleStatusWriter(cast("Any", self.server))

    async def look(self, **more: bool) -> int:
        """Write what is due; return the number of writes until now."""
        await self.writer.save_changed([self.state], **more)
        return self.server.writes["hook"]


@pytest.fixture
async def written() -> Rule:
    """Return a rule with one event, which is written."""
    found = Rule()
    take(found.state, running("first"))
    assert await found.look() == 1
    return found


async def test_a_status_that_changes_all_the_time_is_written_once_in_ten_seconds(written: Rule) -> None:
    for number in range(5):
        take(written.state, running(f"job-{number}"))
        assert await written.look() == 1
    written.state.rests_until_s -= WRITE_EVERY_S
    assert await written.look() == 2
    assert len(written.server.status()["queued"]) == 6


async def test_a_message_and_the_end_of_a_term_wait_for_no_write(written: Rule) -> None:
    take(written.state, running("second"))
    await written.writer.save(written.state)
    assert written.server.writes["hook"] == 2
    take(written.state, running("third"))
    assert await written.look(at_once=True) == 3


async def test_the_next_leader_tells_what_was_only_in_memory(written: Rule) -> None:
    take(written.state, running("second"))
    assert await written.look() == 1
    following = RuleState(read_rule(written.server.rules["hook"]), NOW_S)
    assert not take(following, running("first"))
    assert take(following, running("second"))
    assert [each.workload for each in following.status.queued] == ["vision/first", "vision/second"]


async def test_an_event_is_written_soon_once_its_workload_is_gone(written: Rule) -> None:
    written.state.forget("uid-first")
    take(written.state, running("second"))
    assert await written.look() == 1, "it is written, and the other one can be read again"
    written.state.forget("uid-second")
    assert await written.look() == 2


async def test_an_event_that_couldnt_be_written_is_written_soon_too(written: Rule) -> None:
    take(written.state, running("second"))
    written.server.is_away = True
    with pytest.raises(ApiUnreachable):
        await written.writer.save(written.state)
    written.server.is_away = False
    written.state.forget("uid-second")
    assert await written.look() == 2
