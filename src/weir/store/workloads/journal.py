"""Journal of the local backend as rows: nominations, progress, and ends of workloads.

A workload's end and its event are one transaction; a unique index ensures a single end. A name is unique
among live workloads, so effects, which name workloads, find the row.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from weir.control.journal import ArrayMember, ContainerLaunch, Keepable, LaunchSpec, WorkloadRecord
from weir.control.port import (
    EndWorkload,
    KeepSuspension,
    LifecycleRule,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    WorkloadProgress,
)
from weir.model.queues import Queue
from weir.model.resources import end_clause
from weir.store.database.codec import (
    NOMINATED,
    START_CONDITIONS,
    WORKLOAD,
    as_json,
    idle_progress,
    mapping_of,
    packed,
    record_of,
    row_of,
)
from weir.store.database.database import Database
from weir.store.history.events import EventHistory
from weir.store.history.workload_sums import KINDS, EndTimes, add_ends
from weir.store.projects.queues import queues_of
from weir.store.records import HistoryEvent
from weir.store.tables import ENDED, LIVE, submissions, workloads

WORKLOAD_RECORDS = (
    select(workloads, submissions)
    .join(submissions, submissions.c.uid == workloads.c.uid)
    .order_by(workloads.c.uid)
)
TELL_OF_END = frozenset(
    rule.value
    for rule in (
        *(LifecycleRule.MAX_RUNTIME, LifecycleRule.IDLE, LifecycleRule.LIFETIME),
        LifecycleRule.DEPENDENCY,
    )
)
"""Rules that have an event of their own: the event of the end doesn't repeat their sentence."""
_LIVE_OF_NAME = workloads.update().where(
    workloads.c.name == bindparam("of_name"), workloads.c.state == bindparam("of_state")
)
_SET_STATUS = _LIVE_OF_NAME.values({field.name: bindparam(field.name) for field in fields(WorkloadProgress)})
_SET_HELD = _LIVE_OF_NAME.values(held=bindparam("held"))
_SET_NOMINATION = _LIVE_OF_NAME.values(nomination=bindparam("nomination"))
_SET_SAVED = _LIVE_OF_NAME.values(saved_s=bindparam("saved_s"))


def workload_record(row: Row[Any]) -> WorkloadRecord:
    """Return the record of a workload from its row."""
    return WorkloadRecord(
        workload=WORKLOAD.validate_json(row.spec),
        launch=launch_spec(row),
        submitted_at_s=row.submitted_s,
        status=record_of(WorkloadProgress, row, idle=idle_progress(row.idle)),
        nomination=None if row.nomination is None else NOMINATED.validate_json(row.nomination),
        saved_s=row.saved_s,
        suspended=row.held,
        withdrawn_s=row.withdrawn_s,
        devices=row.devices,
        conditions=START_CONDITIONS.validate_json(row.conditions),
        member=None if row.array_index is None else ArrayMember(row.array_uid, row.array_index),
        sweep=row.sweep,
    )


def launch_spec(row: Row[Any]) -> LaunchSpec:
    """Return the launch spec of a workload from its row."""
    return LaunchSpec(
        uid=row.uid,
        command=tuple(json.loads(row.command)),
        environment=tuple((name, value) for name, value in json.loads(row.environment)),
        directory=row.directory,
        grace_s=row.grace_s,
        secrets=tuple(sorted(mapping_of(row.secrets).items())),
        container=ContainerLaunch(**container) if (container := mapping_of(row.container)) else None,
    )


class StoreJournal:
    """Stores the effects and checkpoint times of control, and reads them at a restart."""

    def __init__(self, database: Database, history: EventHistory) -> None:
        self._database = database
        self._history = history

    def queues(self) -> tuple[Queue, ...]:
        """Return the quota tree, parents before children."""
        return self._database.read(queues_of)

    def workloads(self) -> Sequence[WorkloadRecord]:
        """Return the workloads that aren't over."""

        def read(connection: Connection) -> list[WorkloadRecord]:
            return [
                workload_record(row)
                for row in connection.execute(WORKLOAD_RECORDS.where(workloads.c.state == LIVE))
            ]

        return self._database.read(read)

    def keep(self, effects: Sequence[Keepable], saved: Mapping[str, float]) -> None:
        """Write effects and checkpoint times. Durable when it returns; idempotent.

        Raises:
            StoreFailed: the write failed; nothing is stored.
        """
        if effects or saved:
            self._database.write(lambda connection: self._write(connection, effects, saved)).result()

    def _write(self, connection: Connection, effects: Sequence[Keepable], saved: Mapping[str, float]) -> None:
        statuses: dict[str, WorkloadProgress] = {}
        nominations: dict[str, str | None] = {}
        suspensions: dict[str, str] = {}
        ends: dict[str, EndWorkload] = {}
        for effect in effects:
            if isinstance(effect, SaveProgress):
                statuses[effect.workload] = effect.status
            elif isinstance(effect, ReserveNomination):
                nominations[effect.nomination.workload] = packed(NOMINATED, effect.nomination)
            elif isinstance(effect, ReleaseNomination):
                nominations[effect.workload] = None
            elif isinstance(effect, KeepSuspension):
                suspensions[effect.workload] = effect.reason
            else:
                ends.setdefault(effect.workload, effect)
        if saved:
            rows = [{"saved_s": at_s} | _live_name(name) for name, at_s in saved.items()]
            connection.execute(_SET_SAVED, rows)
        if statuses:
            connection.execute(
                _SET_STATUS, [_columns(status) | _live_name(name) for name, status in statuses.items()]
            )
        if suspensions:
            rows = [{"held": reason} | _live_name(name) for name, reason in suspensions.items()]
            connection.execute(_SET_HELD, rows)
        if nominations:
            connection.execute(
                _SET_NOMINATION,
                [{"nomination": text} | _live_name(name) for name, text in nominations.items()],
            )
        if ends:
            self._end(connection, ends)

    def _end(self, connection: Connection, ends: Mapping[str, EndWorkload]) -> None:
        ending = connection.execute(
            _ENDING.where(workloads.c.name.in_(list(ends)), workloads.c.state == LIVE)
        )
        rows, events, ended = [], [], []
        for uid, name, submitted_s, *keys in ending:
            end, project = ends[name], keys[0]
            if end.at_s < submitted_s:
                continue  # repeated report of the end of an earlier workload of this name
            ran_s = None if end.first_started_s is None else end.wall_s
            clause = end_clause(name, end.how.value, end.at_s - submitted_s, ran_s)
            plain = f"{clause}."
            sentence = end.sentence or plain
            rows.append(
                {
                    "of_uid": uid,
                    "state": end.how.value,
                    "ended_s": end.at_s,
                    "ran_s": end.ran_s,
                    "started_s": end.started_s,
                    "wall_s": end.wall_s,
                    "first_started_s": end.first_started_s,
                    "exit_code": end.exit_code,
                    "sentence": sentence,
                }
            )
            numbers: dict[str, object] = {"how": end.how.value, "ran_s": end.wall_s, "kept_s": end.ran_s}
            if end.exit_code is not None:
                numbers["exit_code"] = end.exit_code
            if end.cause is not None:
                numbers |= {"rule": end.cause.rule.value, **end.cause.numbers}
                if end.cause.rule.value in TELL_OF_END:
                    sentence = plain
            events.append(HistoryEvent(end.at_s, ENDED, sentence, uid, name, project, numbers=numbers))
            ended.append(EndTimes([key or "" for key in keys], submitted_s, end.first_started_s, end.at_s))
        if rows:
            connection.execute(_SET_END, rows)
            add_ends(connection, ended)
            self._history.write(connection, events)


_ENDING = select(*(workloads.c[column] for column in ("uid", "name", "submitted_s", *KINDS)))
_SET_END = (
    update(workloads)
    .where(workloads.c.uid == bindparam("of_uid"))
    .values(
        nomination=None,
        **{
            name: bindparam(name)
            for name in (
                *("state", "ended_s", "ran_s", "started_s", "sentence"),
                *("wall_s", "first_started_s", "exit_code"),
            )
        },
    )
)


def _live_name(name: str) -> dict[str, Any]:
    return {"of_name": name, "of_state": LIVE}


def _columns(status: WorkloadProgress) -> dict[str, Any]:
    return row_of(status, "idle") | {"idle": as_json(status.idle._asdict())}
