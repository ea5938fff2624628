"""The server of the dashboard: 50 viewers, a replay, a year of history, kill -9 under a page."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from tests.browser.serving import CHROMIUM, ServingOnPort
from tests.unit.local.server.server_process import Serving, serving
from tests.unit.store.fixtures import opened
from tests.unit.store.week import record_week

from bench.dashboard_load import Spent, changes, fill, new_tokens, spend, viewers
from bench.dashboard_page import LIVE, live_rows, new_page, seed_live
from bench.dashboard_rows import Measured
from bench.dashboard_year import seed_year
from bench.processes import memory_mib
from weir.local.server.state.what_if_runs import NICE

VIEWERS = 50
CHANGES_PER_S = 200
KILL_CHANGES_PER_S = 20
ROUNDS = 5
ROUND_S = 6.0
JOBS, MANY_JOBS = 100_000, 1_000_000
DAY_S = 86400.0
REQUESTS = {
    "Now: evictions": "events?kind=stopping&limit=8",
    "Workloads: first page": "workloads?limit=100",
    "Workloads: ended ones": "workloads?all=true&limit=100",
    "Workloads: failed ones": "workloads?status=failed&limit=100",
    "Workloads: ended ones of a project": "workloads?all=true&project=project-3&limit=100",
    "Workloads: ended ones of a user": "workloads?all=true&user=user-007&limit=100",
    "Workloads: ended ones by a part of the name": "workloads?all=true&q=resnet-00012&limit=100",
    "Workload": "workloads/1000",
    "Quotas": "projects",
    "Nodes": "nodes",
    "Activity": "events?limit=100",
    "Activity: quotas met": "events?kind=quota_met&limit=100",
    "Activity of a project": "events?project=project-3&limit=100",
    "History: week by project": "history?by=project&since=7d",
    "History: year by project": "history?by=project&since=365d",
    "History: year by user": "history?by=user&since=365d",
    "History: year by node": "history?by=node&since=365d",
}
"""Requests of the screens, with their filters."""


class AsInstalled(Serving):
    """A server whose replays have the lowest priority."""

    replay_nice = NICE


def compared(
    server: Any, beside: Callable[[], AbstractContextManager[None]], rounds: int
) -> tuple[list[Spent], list[Spent]]:
    """Return the cost of the same changes alone and beside something else, by turns."""
    alone, together = [], []
    with changes(server, CHANGES_PER_S) as done:
        time.sleep(2.0)
        for _ in range(rounds):
            alone.append(spend(server, done, ROUND_S))
            with beside():
                together.append(spend(server, done, ROUND_S))
    return alone, together


def slower_percent(alone: list[Spent], together: list[Spent]) -> float:
    """Return by how much decisions take longer, as the median of the rounds."""
    return 100 * statistics.median(
        b.decision_ms / a.decision_ms - 1 for a, b in zip(alone, together, strict=True)
    )


def watch(quick: bool) -> Iterator[Measured]:
    """Yield what 50 viewers cost the server, beyond the same changes without any."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "home") as server:
        fill(server)
        tokens = new_tokens(server)
        before_mib = memory_mib(server.process.pid)
        alone, together = compared(server, lambda: viewers(server, VIEWERS, tokens), 1 if quick else ROUNDS)
        grown_mb = (memory_mib(server.process.pid) - before_mib) * 2**20 / 1e6
        server.stop_all()
    seen = statistics.median(spent.changes_per_s for spent in together)
    core = statistics.median(b.core - a.core for a, b in zip(alone, together, strict=True))
    title = f"{VIEWERS} viewers, {seen:.0f} changes a second"
    yield Measured(f"{title}: part of a core", 100 * core, 15, "%", 7.5)
    yield Measured(f"{title}: memory", grown_mb, 60, "MB", 30)
    yield Measured(f"{title}: slower decisions", slower_percent(alone, together), 5, "%", 2.5)


def replay(quick: bool) -> Iterator[Measured]:
    """Yield by how much decisions take longer while What if replays the history."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        with opened(home) as store:
            record_week(store, time.time() - 60, 2000)
        server = AsInstalled(home)
        try:
            server.ask("PUT", "/api/v1/projects/default", {"name": "default", "quota": {"gpu": 4}})
            fill(server)
            alone, together = compared(server, lambda: replaying(server), 1 if quick else ROUNDS)
            server.stop_all()
        finally:
            server.end()
    yield Measured("What if replays: slower decisions", slower_percent(alone, together), 5, "%")


@contextmanager
def replaying(server: Any) -> Iterator[None]:
    """Replay the history with one more node, until the block ends."""
    asked = {"alternatives": ["add-nodes=1x8"], "since": "7d", "seeds": 10}
    status, made = server.ask("POST", "/api/v1/what-if", asked)
    assert status in (200, 201, 202), made
    time.sleep(1.0)
    yield
    run = server.get(f"/api/v1/what-if/{made['id']}")
    assert run["state"] == "running", f"the replay was over too soon: {run['sentence'] or run['state']}"
    server.ask("DELETE", f"/api/v1/what-if/{made['id']}")


def history(quick: bool) -> Iterator[Measured]:
    """Yield how long a year of history takes: the queries of the store, the pages' requests, and a page."""
    for jobs in (2_000,) if quick else (JOBS, MANY_JOBS):
        now_s = time.time()
        with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
            home = Path(name) / "home"
            seed_year(home, jobs, now_s)
            with opened(home) as store:
                yield from _reports(store, jobs, now_s)
            seed_live(home, LIVE)
            server = ServingOnPort(home, 4)
            try:
                yield from _requests(server, jobs)
                yield from _in_a_browser(server, jobs)
            finally:
                server.end()


def _reports(store: Any, jobs: int, now_s: float) -> Iterator[Measured]:
    since_s = now_s - 365 * DAY_S
    for by, limit in (("project", 300), ("user", 300), ("node", 1000)):
        spent = _median_ms(lambda by=by: store.reports.report(since_s, now_s, by, now_s=now_s))
        yield Measured(f"year of {jobs:,} workloads, report by {by}", spent, limit, "ms")
    chart = _median_ms(lambda: store.usage.chart(since_s, now_s, now_s=now_s))
    yield Measured(f"year of {jobs:,} workloads, points of the chart", chart, 300, "ms")


def _requests(server: Any, jobs: int) -> Iterator[Measured]:
    for name, path in REQUESTS.items():
        spent = _median_ms(lambda path=path: server.get(f"/api/v1/{path}"))
        yield Measured(f"{jobs:,} ended, {name}", spent, 1000, "ms")


def _median_ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return round(statistics.median(times) * 1e3, 1)


CHOSEN = """async () => { const began = performance.now()
  const old = document.querySelector('.tiles').textContent
  const buttons = [...document.querySelectorAll('button')]
  buttons.find(each => each.textContent === 'Year').click()
  const frame = () => new Promise(requestAnimationFrame)
  while (document.querySelector('.tiles').textContent === old) await frame()
  await frame(); return performance.now() - began }"""


def _in_a_browser(server: Any, jobs: int) -> Iterator[Measured]:
    """Yield how soon the list of live workloads is painted, and a chart from the choice of a year on."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        yield from live_rows(browser, server, jobs)
        page = new_page(browser, server.link(), [])
        page.goto(f"{server.url}/#/history?since=1d")
        page.wait_for_selector("figure")
        times = []
        for _ in range(5):
            page.get_by_role("button", name="Day").click()
            page.wait_for_timeout(1000)
            times.append(page.evaluate(CHOSEN))
        browser.close()
    yield Measured(f"year of {jobs:,} workloads, chosen to painted", statistics.median(times), 300, "ms", 150)


def kills(quick: bool) -> Iterator[Measured]:
    """Yield how soon a page says that a killed server is gone, and is right again after its restart."""
    count = 5 if quick else 50
    answer, right = [], []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        server = ServingOnPort(Path(name) / "home", 4)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        try:
            fill(server)
            page = browser.new_page()
            page.goto(server.link())
            page.goto(f"{server.url}/#/workloads")
            page.locator(".state", has_text="live").wait_for()
            with changes(server, KILL_CHANGES_PER_S):
                for index in range(count):
                    server.submit("true", name=f"more-{index}", gpus=4)
                    began = time.monotonic()
                    server.kill()
                    page.get_by_text("No connection to the server").wait_for()
                    answer.append(time.monotonic() - began)
                    server.begin()
                    began = time.monotonic()
                    until_equal(page, server)
                    right.append(time.monotonic() - began)
            server.stop_all()
        finally:
            browser.close()
            if server.process.poll() is None:
                server.end()
    yield Measured(f"killed {count} times under load: page says so, longest", max(answer), 2, "s")
    yield Measured(f"killed {count} times: every row equals REST, longest", max(right), 3, "s")


ROWS = """() => {
  if (!document.querySelector('.state').textContent.includes('live')) return []
  const rows = [...document.querySelectorAll('tbody tr:not([aria-hidden])')]
  const last = cell => cell.textContent.trim().split(' ').at(-1)
  const cells = ['.h0 a', '.h1 .ellipsis', '.h2 .ellipsis', '.h4', '.h5']
  return rows.map(row => cells.map(cell => last(row.querySelector(cell)))) }"""


def until_equal(page: Any, server: Any) -> None:
    """Wait until the rows that the page shows are those of REST, and no row is missing."""
    while True:
        rows = page.evaluate(ROWS)
        page_rows = server.get("/api/v1/workloads?limit=1000")
        rest = {
            row["name"]: [row["name"], row["project"], row["user"], row["status"], f"{row['devices']:g}"]
            for row in page_rows["items"]
        }
        newest = sorted(page_rows["items"], key=lambda row: -row["uid"])[: len(rows)]
        if rows and rows == [rest[row["name"]] for row in newest] and counted(page) == page_rows["total"]:
            return
        time.sleep(0.02)


def counted(page: Any) -> int:
    """Return the number of workloads that the page says it lists."""
    text: str = page.locator(".chosen .count").inner_text()
    return int(text.split(maxsplit=1)[0].replace(",", "")) if text[:1].isdigit() else -1
