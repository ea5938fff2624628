"""Fills a pool's database with a year of ended workloads, their events and their usage, by plain SQL."""

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from tests.unit.store.fixtures import opened, submitted

from weir.model.queues import Queue
from weir.store.database import schema
from weir.store.database.codec import WORKLOAD, packed

BEFORE_SUMS = "0004"
DAY_S, HOUR_S, MINUTE_S = 86400, 3600, 60
PROJECTS, USERS, NODES = 40, 200, 16
EVENTS_S, HOURS_S, MINUTES_S = 90 * DAY_S, 60 * DAY_S, 2 * DAY_S
"""Default retention of events, and of sums by hour and by minute."""
TYPES = ("train", "train", "train", "inference", "build")
OUTCOMES = ("succeeded", "succeeded", "succeeded", "failed", "stopped")
RULES = ("reclaim_quota", "reclaim_share", "preempt", "drained")
_WORKLOAD = (
    "INSERT INTO workloads (uid, name, project, department, user, type, state, priority, preemptible,"
    " devices, pods, submitted_s, started_s, ended_s, ran_s, wall_s, first_started_s, exit_code, sentence,"
    " starts, settled, failures, restarts) VALUES (?,?,?,?,?,?,?,50,1,?,1,?,?,?,?,?,?,0,?,1,1,0,0)"
)
_SUBMISSION = (
    "INSERT INTO submissions (uid, spec, command, environment, directory, grace_s, asked)"
    " VALUES (?,?,'[]','[]','',30,'{}')"
)
_EVENT = (
    "INSERT INTO events (id, at_s, kind, uid, workload, project, sentence, numbers) VALUES (?,?,?,?,?,?,?,?)"
)
_USE = "INSERT INTO uses VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING"
_WORKLOAD_USE = "INSERT INTO workload_uses VALUES (?,?,?,?,?,?,?,?)"


def seed_year(home: Path, jobs: int, now_s: float) -> None:
    """Write a year that ends now: workloads of 40 projects and 200 users on 16 nodes.

    The database has the tables of before the daily sums; its next opening makes them of these rows.
    """
    home.mkdir(mode=0o700)
    engine = create_engine(f"sqlite:///{home}/weir.db")
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, BEFORE_SUMS)
    engine.dispose()
    spec = packed(WORKLOAD, submitted("job", "project-0").workload)
    with closing(sqlite3.connect(home / "weir.db")) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        chance = random.Random(1)
        rows = [_job(index, jobs, now_s, chance) for index in range(jobs)]
        raw.executemany(_WORKLOAD, rows)
        raw.executemany(_SUBMISSION, ((row[0], spec) for row in rows))
        raw.executemany(_EVENT, _numbered(_events(rows, now_s)))
        raw.executemany(_USE, _uses(now_s))
        raw.executemany(_WORKLOAD_USE, _workload_uses(rows, now_s))
        raw.commit()
    with opened(home, migrated=False) as store:
        for index in range(4):
            store.set_queue(Queue(f"department-{index}", None, False, {"gpu": 64000}))
        for index in range(PROJECTS):
            store.set_queue(Queue(f"project-{index}", f"department-{index % 4}", quota={"gpu": 3000}))


def _job(index: int, jobs: int, now_s: float, chance: random.Random) -> tuple[Any, ...]:
    submitted_s = now_s - 365 * DAY_S * (1 - index / jobs) - 5000
    first_s = submitted_s + chance.expovariate(1 / 600)
    ended_s = min(now_s, first_s + chance.expovariate(1 / 900))
    project = chance.randrange(PROJECTS)
    user = 5 * project + chance.randrange(5)
    ran_s = ended_s - first_s
    return (
        *(index + 1, f"train-resnet-{index:07d}", f"project-{project}", f"department-{project % 4}"),
        *(f"user-{user:03d}", chance.choice(TYPES), chance.choice(OUTCOMES), float(1 << chance.randrange(4))),
        *(submitted_s, first_s, ended_s, ran_s, ran_s, first_s, f"train-resnet-{index:07d} has ended."),
    )


def _events(rows: list[tuple[Any, ...]], now_s: float) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        uid, name, project, submitted_s, first_s, ended_s = *row[:3], row[8], row[9], row[10]
        if submitted_s < now_s - EVENTS_S:
            continue
        yield submitted_s, "queued", uid, name, project, "It waits.", "{}"
        yield first_s, "started", uid, name, project, "It runs.", "{}"
        if uid % 20 == 0:
            numbers = {"rule": RULES[uid // 20 % 4], "lost_s": 60.0, "gpus": row[7]}
            yield first_s + 1, "stopped", uid, name, project, "It has stopped.", json.dumps(numbers)
        if uid % 50 == 0:
            numbers = {"waited_s": first_s - submitted_s, "gpus": row[7]}
            yield first_s, "quota_met", uid, name, project, "It got its quota.", json.dumps(numbers)
        yield ended_s, "ended", uid, name, project, f"{name} succeeded.", json.dumps({"how": row[6]})


def _numbered(events: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    yield from ((index + 1, *event) for index, event in enumerate(events))


def _uses(now_s: float) -> Iterator[tuple[Any, ...]]:
    chance = random.Random(2)
    for span_s, long_s in ((DAY_S, 365 * DAY_S), (HOUR_S, HOURS_S), (MINUTE_S, MINUTES_S)):
        for span in range(int(now_s - long_s) // span_s, int(now_s) // span_s + 1):
            for user in range(USERS) if span_s == DAY_S else chance.sample(range(USERS), 40):
                project, node = user // 5, f"node-{(user + span) % NODES:02d}"
                key = (f"project-{project}", f"department-{project % 4}", f"user-{user:03d}", "train")
                sums = (0.6 * span_s, 0.6 * span_s, 0.4 * span_s, 0.1 * span_s, 0.0, 0)
                yield span_s, span * span_s, *key, node, *sums
                yield span_s, span * span_s, *key, "", 0.0, 0.0, 0.0, 0.0, 0.2 * span_s, 0


def _workload_uses(rows: list[tuple[Any, ...]], now_s: float) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        uid, first_s, ended_s = row[0], row[9], row[10]
        for span_s, long_s in ((DAY_S, 366 * DAY_S), (HOUR_S, HOURS_S), (MINUTE_S, MINUTES_S)):
            if first_s < now_s - long_s:
                continue
            for span in range(int(first_s) // span_s, int(ended_s) // span_s + 1):
                part_s = min(ended_s, (span + 1) * span_s) - max(first_s, span * span_s)
                yield uid, span_s, span * span_s, f"node-{uid % NODES:02d}", part_s, part_s, part_s / 2, 0.0
