"""Costs of the store: submissions, ends, lists of queued work, and reports over a year.

The database is where --home says (by default a new directory here, because /tmp may be memory, which
flushes nothing).
"""

import argparse
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Literal

from bench.tables import show
from weir.control.journal import LaunchSpec, WorkloadRecord
from weir.control.port import EndWorkload, SaveProgress, WorkloadProgress
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import WorkloadOutcome
from weir.store.records import HistoryEvent, UsageSample, UsageSamples, WorkloadFilter, WorkloadUsageSample
from weir.store.store import Store

Row = dict[str, object]

NOW_S = 1_800_000_000.0
ASKED: dict[str, object] = {"project": "project-0"}
QUEUED = 10_000
PROJECTS, USERS, NODES = 20, 3, 4
YEAR_DAYS = 365
KEYS: tuple[Literal["project", "user", "node"], ...] = ("project", "user", "node")


def submitted(name: str, index: int = 0) -> WorkloadRecord:
    """Return a workload of one device, with an environment of some size."""
    group = PodGroup("0", Request(devices=1))
    workload = Workload(
        name, f"project-{index % PROJECTS}", (group,), 1, NOW_S + index, user=f"user-{index % 7}"
    )
    environment = tuple((f"VARIABLE_{number}", "x" * 40) for number in range(20))
    command = ("python", "train.py", "--config", "large.yaml")
    launch = LaunchSpec(0, command, environment, "/home/user", 30.0)
    return WorkloadRecord(workload, launch, NOW_S + index, devices=1.0)


def rate(title: str, threads: int, count: int, do: Callable[[int], object]) -> Row:
    """Measure calls of a function in a second, by several threads."""
    with ThreadPoolExecutor(threads) as pool:
        started = perf_counter()
        list(pool.map(do, range(count)))
        took_s = perf_counter() - started
    return {"what": f"{title}, {threads} threads", "per_second": round(count / took_s)}


def timed(title: str, do: Callable[[], object], goal_ms: float, times: int = 5) -> Row:
    """Measure the median time of a call."""
    tries = []
    for _ in range(times):
        started = perf_counter()
        do()
        tries.append(1000 * (perf_counter() - started))
    return {"what": title, "ms": round(median(tries), 1), "goal_ms": goal_ms}


def submissions(store: Store) -> list[Row]:
    """Submissions and whole lives."""

    def submit(name: str, index: int) -> WorkloadRecord:
        return store.workloads.submit(submitted(name, index), ASKED).result()

    def live(index: int) -> None:
        name = f"life-{index}"
        kept = submit(name, index)
        reported = [
            HistoryEvent(NOW_S, kind, f"{name} {kind}", kept.launch.uid, name)
            for kind in ("queued", "started")
        ]
        store.events.record(reported)
        store.journal.keep([SaveProgress(name, WorkloadProgress(1, 1))], {})
        store.journal.keep([EndWorkload(name, WorkloadOutcome.SUCCEEDED, NOW_S + index + 10)], {})

    return [
        rate(
            "submissions",
            1,
            1000,
            lambda index: store.workloads.submit(submitted(f"one-{index}", index), ASKED).result(),
        ),
        rate(
            "submissions",
            32,
            5000,
            lambda index: store.workloads.submit(submitted(f"many-{index}", index), ASKED).result(),
        ),
        rate("lives (submitted, settled, ended, three events)", 1, 300, live),
        rate("lives (submitted, settled, ended, three events)", 32, 3000, lambda index: live(index + 300)),
    ]


def lists(store: Store) -> list[Row]:
    """Lists of ten thousand that are queued, and what a new server reads."""
    queued = store.workloads.page(WorkloadFilter()).total
    with ThreadPoolExecutor(32) as pool:
        list(
            pool.map(
                lambda index: store.workloads.submit(submitted(f"queued-{index}", index), ASKED).result(),
                range(max(0, QUEUED - queued)),
            )
        )
    uids = [line.uid for line in store.workloads.page(WorkloadFilter(), limit=1000).items]
    running = dict.fromkeys(uids[::100], "running")
    middle = uids[-1] - QUEUED // 2
    title = f"{store.workloads.page(WorkloadFilter()).total:,} queued"
    return [
        timed(f"{title}: first page of 100", lambda: store.workloads.page(WorkloadFilter()), 200),
        timed(f"{title}: page of 1,000", lambda: store.workloads.page(WorkloadFilter(), limit=1000), 200),
        timed(
            f"{title}: page in the middle", lambda: store.workloads.page(WorkloadFilter(), after=middle), 200
        ),
        timed(
            f"{title}: of a project",
            lambda: store.workloads.page(WorkloadFilter(projects=["project-7"])),
            200,
        ),
        timed(
            f"{title}: of a user, by name",
            lambda: store.workloads.page(WorkloadFilter(users=["user-3"], q="99")),
            200,
        ),
        timed(
            f"{title}: those that run",
            lambda: store.workloads.page(WorkloadFilter(statuses=["running"]), live=running),
            200,
        ),
        timed(
            f"{title}: pending",
            lambda: store.workloads.page(WorkloadFilter(statuses=["pending"]), live=running),
            200,
        ),
        timed(f"{title}: ended ones too", lambda: store.workloads.page(WorkloadFilter(ended=True)), 200),
        timed(f"{title}: found again by a new server", store.journal.workloads, 2000),
    ]


def year(store: Store, home: Path) -> list[Row]:
    """A year of use, with a minute of every other hour and every minute of its last day; reports over it."""
    draw = random.Random(1)
    end_s = NOW_S // 86400 * 86400
    started = perf_counter()
    minutes = 0
    for day in range(YEAR_DAYS):
        at_s = end_s - (YEAR_DAYS - day) * 86400
        step_s = 60.0 if day == YEAR_DAYS - 1 else 7200.0
        while at_s < end_s - (YEAR_DAYS - day - 1) * 86400:
            minutes += 1
            uses = [
                UsageSample(
                    f"project-{p}",
                    f"lab-{p % 4}",
                    f"user-{u}",
                    "train",
                    f"node-{draw.randrange(NODES)}",
                    60.0,
                    60.0,
                    30.0,
                )
                for p in range(PROJECTS)
                for u in range(USERS)
                if draw.random() < 0.5
            ]
            of_workloads = [
                WorkloadUsageSample(day * 40 + index, "node-0", 60.0, 60.0, 30.0) for index in range(40)
            ]
            store.samples.add(UsageSamples(at_s, at_s + 60, uses, of_workloads))
            at_s += step_s
        store.tidy(at_s) if day % 30 == 29 else store.queues()
    store.tidy(end_s)
    store.set_queue(store.queues()[0])
    wrote_s = perf_counter() - started
    size_mb = sum(file.stat().st_size for file in home.iterdir()) / 1e6
    rows: list[Row] = [
        {"what": "a sample", "ms": round(1000 * wrote_s / minutes, 1)},
        {"what": "database after a year, MB", "size_mb": round(size_mb)},
    ]
    for days in (7, 30, YEAR_DAYS):
        since_s = end_s - days * 86400 + 12_345
        rows += [
            timed(
                f"use of {days} days by {by}",
                partial(store.usage.report, since_s, end_s, by, now_s=end_s),
                500,
            )
            for by in KEYS
        ]
    rows.append(
        timed(
            "chart of a year", lambda: store.usage.chart(end_s - YEAR_DAYS * 86400, end_s, now_s=end_s), 500
        )
    )
    return rows


def main(words: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.store", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--home", type=Path, help="a directory on the disk to be measured")
    parser.add_argument("--quick", action="store_true", help="without the year")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args(words)
    home = Path(tempfile.mkdtemp(prefix="weir-store-", dir=args.home or Path.cwd()))
    store = Store(None, home)
    try:
        for index in range(PROJECTS):
            store.set_queue(Queue(f"project-{index}"))
        rows = submissions(store) + lists(store)
        rows += [] if args.quick else year(store, home)
    finally:
        store.close()
        shutil.rmtree(home)
    show("What writing down costs", rows, args.output)


if __name__ == "__main__":
    main()
