"""Notifications that can't be sent: a metric says so, and the scheduler stays ready."""

from types import SimpleNamespace
from typing import Any, cast

from weir.kubernetes.process.scheduler_process import SchedulerProcess
from weir.kubernetes.process.server.metrics import ClusterMetrics


def scheduler(*, trouble: str = "", sends: bool = True, leads: bool = True) -> Any:
    """Return the parts of a scheduler that its readiness and this metric read."""
    return SimpleNamespace(
        control_thread=None,
        reflectors={},
        notifications=SimpleNamespace(trouble=trouble, sends=sends),
        election=SimpleNamespace(may_write=lambda: leads),
    )


def sent(instance: Any) -> list[float]:
    families = ClusterMetrics(cast("Any", instance))._notifications()
    return [sample.value for family in families for sample in family.samples]


def test_notifications_that_arent_sent_leave_the_scheduler_ready() -> None:
    instance = scheduler(trouble="The thread that sends notifications has ended.")
    assert SchedulerProcess.trouble(instance) == ""
    assert sent(instance) == [0.0]


def test_only_a_leader_with_settings_has_the_metric() -> None:
    assert sent(scheduler()) == [1.0]
    assert sent(scheduler(sends=False)) == sent(scheduler(leads=False)) == []
