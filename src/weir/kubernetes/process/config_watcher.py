"""Settings in force: those of the flags, or of the `SchedulerConfig` with the scheduler's name.

A bad object is contained: the last good settings stay in force, also after a restart, because the object's
status stores them. The object gets a condition and an event that say what is wrong.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from structlog import get_logger

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet, ObjectUnreadable
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.crd.scheduler_config import KIND, PLURAL, settings_of
from weir.kubernetes.crd.scheduler_settings import SchedulerSettings
from weir.kubernetes.crd.schemas import API_VERSION, InvalidObject
from weir.kubernetes.translate.device_list import devices_written
from weir.kubernetes.writes.operations import EmitEvent, EventSubject, PatchStatus

PATH = path_of(API_VERSION, PLURAL)
_LOG = get_logger(__name__)
MESSAGE_MAX = 4_000
READY, REFUSED = "Ready", "Refused"
SubmitWrites = Callable[[Sequence[EmitEvent | PatchStatus]], None]


class ConfigWatcher:
    """Settings of one scheduler. All calls come from the event loop. `clock` has the times of conditions."""

    def __init__(
        self,
        scheduler: str,
        base: SchedulerSettings,
        configs: Iterable[QuotaObject] = (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._base = base
        self.settings = base
        self.refused = ""
        """Error in the object of the scheduler's name; empty if there is none."""
        self.usage_trouble: str | None = None  # reason for unknown GPU use; None: it is known
        self.nodes_report = False  # True: agents report the use of GPUs, instead of Prometheus
        self.changed: Callable[[], None] = lambda: None
        self.tell: SubmitWrites = lambda _: None
        self._configs: dict[str, QuotaObject] = {}
        self._good: str | None = None  # the spec in force, as JSON
        for config in configs:
            self._set(config)

    def deliver(self, changes: Sequence[Change[QuotaObject]]) -> None:
        """Process changes of the objects."""
        before = self.settings
        for change in changes:
            if isinstance(change, ObjectSet):
                self._set(change.object)
                self._tell_of(change.object)
            elif isinstance(change, ObjectRemoved):
                self._configs.pop(change.key, None)
                if change.key == self._scheduler:
                    self.settings, self.refused, self._good = self._base, "", None
            elif isinstance(change, ObjectUnreadable) and change.key == self._scheduler:
                self.refused = change.sentence
        if self.settings != before:
            _LOG.info("settings_changed", policy=self.settings.policy.preset, name=self._scheduler)
            self.changed()

    def tell_all(self) -> None:
        """Write the status of all settings objects, as the new leader."""
        for config in self._configs.values():
            self._tell_of(config)

    def set_usage_trouble(self, why: str | None, *, nodes_report: bool = False) -> None:
        """Write the condition about the use of GPUs, if it has changed."""
        if (why, nodes_report) != (self.usage_trouble, self.nodes_report):
            self.usage_trouble, self.nodes_report = why, nodes_report
            self.tell_all()

    def _set(self, config: QuotaObject) -> None:
        name = config.metadata.name
        self._configs[name] = config
        if name != self._scheduler:
            return
        try:
            self.settings, self.refused = settings_of(config.spec, self._base), ""
            self._good = json.dumps(config.spec, sort_keys=True)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the scheduler goes on
            problem = (
                str(error)
                if isinstance(error, InvalidObject)
                else f"it can't be read: {type(error).__name__}"
            )
            self.refused = f"{problem[:MESSAGE_MAX]}."
            _LOG.warning("settings_refused", name=name, why=self.refused)
            if self._good is None:
                self._remember(config)

    def _remember(self, config: QuotaObject) -> None:
        """Use the settings that were in force before this process began."""
        try:
            written = config.status.get("inForce") or ""
            self.settings = settings_of(json.loads(written), self._base)
            self._good = written
        except Exception:  # noqa: BLE001 - there were none: the flags are in force
            self.settings, self._good = self._base, None

    def _about_devices(self) -> str:
        """Return a sentence about settings that the installed manifests don't follow by themselves."""
        devices = self.settings.devices
        if set(devices.resources) <= set(self._base.devices.resources):
            return ""
        return (
            " The webhooks and admission policies name other devices: apply the manifests of "
            f"`weir kube manifests --devices {devices_written(devices)}`."
        )

    def _tell_of(self, config: QuotaObject) -> None:
        is_own = config.metadata.name == self._scheduler
        message = self.refused if is_own else f"This scheduler reads only the {KIND} {self._scheduler}."
        now = moment(self._clock())
        conditions = [_accepted(config, message, now)]
        if is_own and self.settings.usage.url:
            conditions.append(_usage_read(config, self.usage_trouble, "PrometheusFailed", now))
        elif is_own and self.nodes_report:
            conditions.append(_usage_read(config, self.usage_trouble, "NoNodeReports", now))
        status = _status(config, message, self._good if is_own else None, conditions)
        if status is None:
            return
        about = EventSubject(API_VERSION, KIND, config.metadata.name, "", config.metadata.uid)
        event = (
            EmitEvent(about, "Refused", message, type="Warning")
            if message
            else EmitEvent(about, "InForce", f"These settings are in force.{self._about_devices()}")
        )
        path = path_of(API_VERSION, PLURAL, name=config.metadata.name)
        self.tell([PatchStatus(path, {"status": status}), event])


def _status(
    config: QuotaObject, message: str, in_force: str | None, conditions: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the status to be written; None if the object has it."""
    wanted = {
        "phase": REFUSED if message else READY,
        "message": message,
        "observedGeneration": config.metadata.generation,
        "inForce": in_force or "",
    }
    before = config.status
    same = all(before.get(key, "") == value for key, value in wanted.items())
    if same and before.get("conditions", []) == conditions:
        return None
    return {**wanted, "conditions": conditions}


def _accepted(config: QuotaObject, message: str, now: str) -> dict[str, Any]:
    state, reason = ("False", REFUSED) if message else ("True", READY)
    return _condition(config, "Accepted", state, reason, message or "The settings are in force.", now)


def _usage_read(config: QuotaObject, trouble: str | None, reason: str, now: str) -> dict[str, Any]:
    if trouble is None:
        return _condition(config, "UsageRead", "True", READY, "The use of GPUs is read.", now)
    message = f"The use of GPUs is unknown: {trouble}."
    return _condition(config, "UsageRead", "False", reason, message, now)


def _condition(
    config: QuotaObject, type_: str, state: str, reason: str, message: str, now: str
) -> dict[str, Any]:
    """Return a condition, with the time since which it has this state."""
    stated = config.status.get("conditions")
    conditions: list[Any] = stated if isinstance(stated, list) else []
    last = next(
        (
            condition
            for condition in conditions
            if isinstance(condition, dict) and condition.get("type") == type_
        ),
        {},
    )
    return {
        "type": type_,
        "status": state,
        "reason": reason,
        "message": message,
        "lastTransitionTime": last.get("lastTransitionTime", now) if last.get("status") == state else now,
        "observedGeneration": config.metadata.generation,
    }
