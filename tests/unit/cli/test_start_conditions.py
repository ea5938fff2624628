"""Times of `weir submit --begin`."""

from datetime import datetime

import pytest

from weir.cli.start_conditions import begin_time

NOW = datetime(2026, 11, 23, 12, 30).astimezone()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-12-01T18:00", datetime(2026, 12, 1, 18).astimezone()),
        ("2026-12-01T18:00+00:00", datetime.fromisoformat("2026-12-01T18:00+00:00")),
        ("18:00", datetime(2026, 11, 23, 18).astimezone()),
        ("12:30", datetime(2026, 11, 24, 12, 30).astimezone()),
        ("06:15:30", datetime(2026, 11, 24, 6, 15, 30).astimezone()),
        ("+2h", datetime(2026, 11, 23, 14, 30).astimezone()),
        (" +90s ", datetime(2026, 11, 23, 12, 31, 30).astimezone()),
    ],
)
def test_time_as_people_write_it(written: str, meant: datetime) -> None:
    assert begin_time(written, NOW.timestamp()) == meant.timestamp()


@pytest.mark.parametrize("written", ["", "+", "+1 fortnight", "24:30", "9999-99-99", "6", "tomorrow"])
def test_what_is_no_time_is_refused_with_what_to_write(written: str) -> None:
    with pytest.raises(ValueError, match="is no time: write 2026-12-01T18:00, 18:00 for the next"):
        begin_time(written, NOW.timestamp())
