"""Sweeps, their trials, and the results at their rungs.

A trial is written with its workload in one transaction. The same holds for a result with the suspension of
its workload, and for a promotion with the end of that suspension. So a crash of the server leaves none of
these pairs incomplete.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    Row,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from weir.control.journal import TrialPlan, WorkloadRecord
from weir.store.database.codec import as_json, mapping_of, record_of, row_of
from weir.store.database.database import Database
from weir.store.errors import NameTaken
from weir.store.records import RungResult, SweepRecord, TrialRecord
from weir.store.tables import LIVE, NUMBER, metadata, submissions, workloads
from weir.store.workloads.journal import WORKLOAD_RECORDS, workload_record

FORGOTTEN_TOGETHER = 100
"""Sweeps whose details are removed in one transaction."""
NO_OWNER = "{}"
"""Owner of a sweep whose details were removed."""
REMOVED_COMMAND = ("(removed)",)

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("name", String, nullable=False, unique=True),
    Column("project", String, nullable=False),
    Column("user", String, nullable=False),
    Column("state", String, nullable=False),
    Column("spec", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("created_s", Double, nullable=False),
    Column("ended_s", Double),
    Column("sentence", Text, nullable=False),
    sqlite_autoincrement=True,
)

sweep_trials = Table(
    "sweep_trials",
    metadata,
    Column("sweep", NUMBER, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("uid", NUMBER, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("params", Text, nullable=False),
    Column("state_of_sampler", Text, nullable=False),
    Column("target", Integer, nullable=False),
    Column("parked", Boolean, nullable=False),
)

sweep_results = Table(
    "sweep_results",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("sweep", NUMBER, nullable=False),
    Column("number", Integer, nullable=False),
    Column("rung", Integer, nullable=False),
    Column("step", NUMBER, nullable=False),
    Column("value", Double),
    Column("at_s", Double, nullable=False),
    Column("promoted_among", Integer),
    sqlite_autoincrement=True,
)
Index(
    "sweep_results_of_trial",
    *(sweep_results.c[name] for name in ("sweep", "number", "rung")),
    unique=True,
)

_trials, _results = sweep_trials.c, sweep_results.c
_TRIALS = (
    select(sweep_trials, workloads.c.state, workloads.c.wall_s, workloads.c.devices)
    .outerjoin(workloads, workloads.c.uid == _trials.uid)
    .order_by(_trials.number)
)
_UNFINISHED = (
    select(sweeps.c.id)
    .distinct()
    .select_from(sweeps)
    .outerjoin(sweep_trials, _trials.sweep == sweeps.c.id)
    .outerjoin(workloads, workloads.c.uid == _trials.uid)
)


class SweepHead(NamedTuple):
    """A sweep as far as a list needs it to choose."""

    id: int
    name: str
    project: str
    created_s: float


class SweepTable:
    """Stores sweeps with their trials and results."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, record: SweepRecord) -> "Future[SweepRecord]":
        """Write a new sweep down; its record has its number. Raises NameTaken."""
        row = row_of(record, "id", "ended_s")

        def work(connection: Connection) -> SweepRecord:
            if connection.execute(select(sweeps.c.id).where(sweeps.c.name == record.name)).first():
                raise NameTaken(f"There is a sweep called {record.name} already: write another name.")
            connection.execute(insert(sweeps), row)
            made = connection.execute(select(sweeps).where(sweeps.c.name == record.name)).one()
            return _sweep(made)

        return self._database.write(work)

    def heads(self) -> list[SweepHead]:
        """Return all sweeps without their submissions, newest first."""
        columns = (sweeps.c[name] for name in SweepHead._fields)
        query = select(*columns).order_by(sweeps.c.id.desc())
        return [SweepHead(*row) for row in self._database.rows(query)]

    def get(self, name: str) -> SweepRecord | None:
        """Return the sweep of a name; None if there is none."""
        query = select(sweeps).where(sweeps.c.name == name)
        row = self._database.row(query)
        return None if row is None else _sweep(row)

    def unfinished(self, state: str) -> list[SweepRecord]:
        """Return the sweeps in a state, and those with trials that aren't over, oldest first."""
        ids = _UNFINISHED.where((sweeps.c.state == state) | (workloads.c.state == LIVE))
        query = select(sweeps).where(sweeps.c.id.in_(ids)).order_by(sweeps.c.id)
        return [_sweep(row) for row in self._database.rows(query)]

    def trials(self, sweep: SweepRecord) -> list[TrialRecord]:
        """Return the trials of a sweep by number."""
        query = _TRIALS.where(_trials.sweep == sweep.id)
        return [_trial(row, sweep) for row in self._database.rows(query)]

    def results(self, sweep: int) -> list[RungResult]:
        """Return the results of a sweep in the order in which they were recorded."""
        query = select(sweep_results).where(_results.sweep == sweep).order_by(_results.id)
        return [record_of(RungResult, row) for row in self._database.rows(query)]

    def record(self, results: Sequence[RungResult], parked: Mapping[int, str]) -> "Future[None]":
        """Store results, and park trials: reasons of their suspension by the numbers of workloads.

        A result that is known stays as it is, and a workload that a person suspended stays suspended by them.
        """
        rows = [row_of(result) for result in results]

        def work(connection: Connection) -> None:
            for row in rows:
                where = (_results[key] == row[key] for key in ("sweep", "number", "rung"))
                if connection.execute(select(_results.id).where(*where)).first() is None:
                    connection.execute(insert(sweep_results), row)
            for uid, why in parked.items():
                connection.execute(update(sweep_trials).where(_trials.uid == uid).values(parked=True))
                held = (workloads.c.uid == uid, workloads.c.held.is_(None))
                connection.execute(update(workloads).where(*held).values(held=why))

        return self._database.write(work)

    def promote(
        self, trial: TrialRecord, rung: int, among: int, environment: Mapping[str, str], parked: str
    ) -> "Future[WorkloadRecord | None]":
        """Promote a trial from a rung: its workload runs to the next one, with these variables changed.

        Returns None, and changes nothing, if other results were recorded since the decision, or if the
        workload is over. `among` is how many there were. A workload that isn't suspended as `parked` stays
        suspended.
        """

        def work(connection: Connection) -> WorkloadRecord | None:
            at_rung = (_results.sweep == trial.plan.sweep, _results.rung == rung)
            count = select(func.count()).select_from(sweep_results).where(*at_rung)
            row = connection.execute(
                WORKLOAD_RECORDS.where(workloads.c.uid == trial.uid, workloads.c.state == LIVE)
            ).one_or_none()
            if row is None or connection.execute(count).scalar_one() != among:
                return None
            of_trial = (*at_rung, _results.number == trial.plan.number)
            connection.execute(update(sweep_results).where(*of_trial).values(promoted_among=among))
            connection.execute(
                update(sweep_trials).where(_trials.uid == trial.uid).values(target=rung + 1, parked=False)
            )
            variables = {**dict(json.loads(row.environment)), **environment}
            connection.execute(
                update(submissions)
                .where(submissions.c.uid == trial.uid)
                .values(environment=as_json(sorted(variables.items())))
            )
            if row.held == parked:
                connection.execute(update(workloads).where(workloads.c.uid == trial.uid).values(held=None))
            return workload_record(
                connection.execute(WORKLOAD_RECORDS.where(workloads.c.uid == trial.uid)).one()
            )

        return self._database.write(work)

    def delete_launch_specs(self, before_s: float) -> None:
        """Remove command, environment and owner of the sweeps that ended before this."""
        old = (
            select(sweeps.c.id, sweeps.c.spec)
            .where(sweeps.c.ended_s < before_s, sweeps.c.owner != NO_OWNER)
            .limit(FORGOTTEN_TOGETHER)
        )

        def work(connection: Connection) -> int:
            rows = connection.execute(old).all()
            for id_, text in rows:
                spec = dict(mapping_of(text))
                spec["workload"] = {"project": dict(spec["workload"])["project"], "command": REMOVED_COMMAND}
                values = {"spec": as_json(spec), "owner": NO_OWNER}
                connection.execute(update(sweeps).where(sweeps.c.id == id_).values(values))
            return len(rows)

        while self._database.write(work, durable=False).result():
            pass

    def delete(self, sweep: int) -> "Future[bool]":
        """Delete a sweep that is over with its trials and results; their workloads stay.

        Returns False, and deletes nothing, if it goes on or one of its workloads isn't over.
        """
        live = (
            select(_trials.uid)
            .join(workloads, workloads.c.uid == _trials.uid)
            .where(_trials.sweep == sweep, workloads.c.state == LIVE)
        )
        ended = select(sweeps.c.id).where(sweeps.c.id == sweep, sweeps.c.ended_s.is_not(None))

        def work(connection: Connection) -> bool:
            if connection.execute(ended).first() is None or connection.execute(live).first() is not None:
                return False
            connection.execute(delete(sweep_results).where(_results.sweep == sweep))
            connection.execute(delete(sweep_trials).where(_trials.sweep == sweep))
            connection.execute(delete(sweeps).where(sweeps.c.id == sweep))
            return True

        return self._database.write(work)

    def end(self, sweep: int, state: str, sentence: str, at_s: float) -> "Future[None]":
        """Write down that a sweep is over."""
        values = {"state": state, "sentence": sentence, "ended_s": at_s}
        change = update(sweeps).where(sweeps.c.id == sweep, sweeps.c.ended_s.is_(None)).values(values)

        def work(connection: Connection) -> None:
            connection.execute(change)

        return self._database.write(work)


def add_trial(connection: Connection, trial: TrialPlan, uid: int, name: str) -> None:
    """Write a new trial down, in the transaction of its workload."""
    row = row_of(trial, "sweep_name", "rungs", "metric") | {"uid": uid, "name": name, "parked": False}
    connection.execute(insert(sweep_trials), row)


def _sweep(row: Row[Any]) -> SweepRecord:
    return record_of(SweepRecord, row, spec=mapping_of(row.spec), owner=mapping_of(row.owner))


def _trial(row: Row[Any], sweep: SweepRecord) -> TrialRecord:
    rungs = sweep.spec.get("rungs")
    plan = record_of(
        TrialPlan,
        row,
        sweep_name=sweep.name,
        params=mapping_of(row.params),
        state_of_sampler=mapping_of(row.state_of_sampler),
        rungs=tuple(rungs) if isinstance(rungs, list) else (),
        metric=str(sweep.spec.get("metric", "loss")),
    )
    wall_s, devices = row.wall_s or 0.0, row.devices or 0.0
    return TrialRecord(plan, row.uid, row.name, row.parked, row.state, wall_s, devices)
