"""Times of a cron expression in a time zone, as Debian's cron has them.

A run in an hour that the clock skips comes right after it. A run in an hour that comes twice runs once,
unless it runs every hour anyway.
"""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from weir.api.field_errors import FieldErrorList
from weir.api.schedules import ScheduleAsked

FIELDS = 5
SCHEDULE_NAME_LENGTH_MAX = 48
"""Length of a schedule's name: with its time, the name of a run has up to 63 characters."""
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Short names of cron expressions."""
_ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)


def read_zone(name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        ValueError: this machine doesn't know it.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"zone: {name[:80]!r} is no time zone here; write one such as Europe/Zurich"
        ) from None


def read_cron(written: str) -> str:
    """Return a cron expression of five fields.

    Raises:
        ValueError: it can't be read, or no time ever fits.
    """
    text = NAMED.get(written.strip().lower(), written.strip())
    fields = text.split()
    right = "write minute, hour, day, month and weekday, such as '0 2 * * *'"
    if not text.isascii() or len(fields) != FIELDS:
        raise ValueError(f"cron: {written[:80]!r} hasn't {FIELDS} fields; {right}")
    try:
        next(CronSim(text, _ORIGIN))
    except CronSimError as error:
        raise ValueError(f"cron: {written[:80]!r} can't be read ({str(error).lower()}); {right}") from None
    except StopIteration:
        raise ValueError(f"cron: {written[:80]!r} fits no day; {right}") from None
    return " ".join(fields)


def check_schedule(asked: ScheduleAsked, fields: FieldErrorList) -> None:
    """Add the mistakes of a schedule, except those of its workload."""
    for read, value, field in ((read_cron, asked.cron, "cron"), (read_zone, asked.zone, "zone")):
        try:
            read(value)
        except ValueError as error:
            fields.add((field,), str(error))
    if asked.workload.name is not None:
        fields.add(("workload", "name"), "name: each run has a name of its own; leave it out")


def next_time(cron: str, zone: ZoneInfo, after_s: float) -> float | None:
    """Return the first time after this; None if none follows."""
    times = (moment.timestamp() for moment in CronSim(cron, datetime.fromtimestamp(after_s, zone)))
    # In an hour that comes twice, the first time found may lie in the earlier of the two
    return next((at_s for at_s in times if at_s > after_s), None)


def last_time(cron: str, zone: ZoneInfo, until_s: float) -> float | None:
    """Return the last time up to this; None if there was none."""
    times = CronSim(cron, datetime.fromtimestamp(until_s + 1.0, zone), reverse=True)
    return next((moment.timestamp() for moment in times), None)


def extra_run_name(schedule: str, zone: tzinfo, at_s: float) -> str:
    """Return the name of the workload of a run on request, in the zone: `nightly-261201-020130`."""
    return f"{schedule}-{datetime.fromtimestamp(at_s, zone):%y%m%d-%H%M%S}"


def run_name(schedule: str, zone: ZoneInfo, at_s: float) -> str:
    """Return the name of the workload of a run: `nightly-20261201-0200`, in the time of the zone."""
    moment = datetime.fromtimestamp(at_s, zone)
    again = "b" if moment.fold else ""  # the second time that the clock shows this time
    return f"{schedule}-{moment:%Y%m%d-%H%M}{again}"
