"""Schedules on a cluster: the rows of CronJobs."""

from typing import Any

import msgspec
import pytest

from weir.api.schedules import ScheduleRow
from weir.cli.cluster.cron_jobs import CronView
from weir.cli.cluster.cron_jobs import _row as schedule_row


def row(template: Any) -> ScheduleRow:
    meta = {"name": "nightly", "namespace": "team", "labels": {"weir.dev/project": "vision"}}
    spec = {"schedule": "0 2 * * *", "timeZone": "Etc/UTC", "jobTemplate": template}
    return schedule_row(msgspec.convert({"metadata": meta, "spec": spec}, CronView))


def test_a_schedule_names_the_creator_whom_the_webhook_wrote() -> None:
    assert row({"metadata": {"annotations": {"weir.dev/user": "mia"}}}).user == "mia"


@pytest.mark.parametrize("template", [{}, {"metadata": None}, {"metadata": {"annotations": None}}])
def test_a_schedule_from_before_the_webhook_has_no_creator(template: Any) -> None:
    assert row(template).user == ""
