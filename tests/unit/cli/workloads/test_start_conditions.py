"""Times of `weir submit --begin`."""

from datetime import datetime

import pytest

from weir.cli.submissions.submit_options import StartOptions, WorkloadOptions
from weir.cli.workloads.start_conditions import begin_time
from weir.slurm.begin_times import begin_moment

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


@pytest.mark.parametrize(
    ("written", "now", "meant"),
    [
        ("2027-03-28T02:30", "2026-11-23T12:00+01:00", "2027-03-28T03:30+02:00"),  # the clock skips it
        ("18:00", "2026-10-24T19:00+02:00", "2026-10-25T18:00+01:00"),
        ("18:00", "2027-03-27T19:00+01:00", "2027-03-28T18:00+02:00"),
    ],
)
@pytest.mark.usefixtures("zurich")
def test_time_is_that_of_the_clock_when_summer_time_changes(written: str, now: str, meant: str) -> None:
    begin_s = begin_time(written, datetime.fromisoformat(now).timestamp())
    assert begin_s == datetime.fromisoformat(meant).timestamp()


@pytest.mark.parametrize(
    ("written", "now", "meant"),
    [
        ("2027-06-01T18:00", "2026-11-23T12:00+01:00", "2027-06-01T18:00+02:00"),
        ("2027-03-28T02:30", "2026-11-23T12:00+01:00", "2027-03-28T03:30+02:00"),
        ("18:00", "2026-10-24T19:00+02:00", "2026-10-25T18:00+01:00"),
        ("tomorrow", "2027-03-28T01:00+01:00", "2027-03-29T00:00+02:00"),
    ],
)
@pytest.mark.usefixtures("zurich")
def test_time_of_sbatch_is_that_of_the_clock_then(written: str, now: str, meant: str) -> None:
    assert begin_moment(written, datetime.fromisoformat(now)) == datetime.fromisoformat(meant)


@pytest.mark.parametrize("written", ["", "+", "+1 fortnight", "24:30", "9999-99-99", "6", "tomorrow"])
def test_what_is_no_time_is_refused_with_what_to_write(written: str) -> None:
    with pytest.raises(ValueError, match="is no time: write 2026-12-01T18:00, 18:00 for the next"):
        begin_time(written, NOW.timestamp())


@pytest.mark.parametrize(
    ("written", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["a,b", "c[1]"], ["a", "b", "c[1]"]),
        (["a, b,"], ["a", "b"]),
        ([","], [","]),  # the pool refuses it
    ],
)
def test_conditions_name_several_workloads_between_commas(written: list[str], names: list[str]) -> None:
    assert WorkloadOptions().stated(StartOptions(after_ok=written))["after_ok"] == names
