"""The records of Events: their times are those of the API server, as far as Weir knows it."""

from datetime import UTC, datetime

import pytest

from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.history.records import event_record
from weir.kubernetes.query.workloads.rows import EventView

CREATED_S = 1_767_225_600.0


@pytest.mark.parametrize(
    ("stated_s", "now_s", "recorded_s"),
    [
        pytest.param(CREATED_S - 0.1, CREATED_S - 0.1, CREATED_S, id="Weir's clock is behind"),
        pytest.param(CREATED_S + 0.7, CREATED_S + 5.0, CREATED_S + 0.7, id="the clocks agree"),
        pytest.param(CREATED_S + 86_400.0, CREATED_S + 5.0, CREATED_S + 5.0, id="a time of the future"),
    ],
)
def test_an_event_is_recorded_neither_before_its_creation_nor_in_the_future(
    stated_s: float, now_s: float, recorded_s: float
) -> None:
    stated, created = (datetime.fromtimestamp(at_s, UTC).isoformat() for at_s in (stated_s, CREATED_S))
    event = EventView(Metadata(name="e", namespace="ns", uid="e", creation_timestamp=created), stated)
    assert event_record((event, None, None), now_s).row.at_s == pytest.approx(recorded_s)
