"""Measures the server of the dashboard: 50 viewers, a replay, a year of history, kill -9 under a page.

python -m bench.dashboard_server [viewers what_if history kills] [--quick]
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from tests.browser.conftest import CHROMIUM, ServingOnPort
from tests.unit.local.server.server_process import serving
from tests.unit.store.fixtures import opened, submitted
from tests.unit.store.week import record_week

from bench.dashboard_load import Spent, changes, fill, memory_mb, spend, viewers
from bench.dashboard_rows import Measured, parser_of, report
from weir.control.port import EndWorkload
from weir.state.events import WorkloadOutcome
from weir.store import HistoryEvent, UsageSample, UsageSamples

VIEWERS = 50
CHANGES_PER_S = 200
KILL_CHANGES_PER_S = 20
ROUNDS = 5
ROUND_S = 6.0
TOGETHER = 500
JOBS = 100_000
DAY_S, MINUTE_S = 86400.0, 60.0


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
        tokens = [
            server.ask("POST", "/api/v1/tokens", {"user": f"user-{at}", "projects": ["default"]})[1]["token"]
            for at in range(5)
        ]
        before_mb = memory_mb(server.process.pid)
        alone, together = compared(server, lambda: viewers(server, VIEWERS, tokens), 1 if quick else ROUNDS)
        grown_mb = memory_mb(server.process.pid) - before_mb
        server.stop_all()
    seen = statistics.median(spent.changes_per_s for spent in together)
    core = statistics.median(b.core - a.core for a, b in zip(alone, together, strict=True))
    what = f"{VIEWERS} viewers, {seen:.0f} changes a second"
    yield Measured(f"{what}: part of a core", 100 * core, 15, "%")
    yield Measured(f"{what}: memory", grown_mb, 60, "MB")
    yield Measured(f"{what}: slower decisions", slower_percent(alone, together), 5, "%")


def replay(quick: bool) -> Iterator[Measured]:
    """Yield by how much decisions take longer while What if replays the history."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        with opened(home) as store:
            record_week(store, time.time() - 60, 2000)
        with serving(home) as server:
            server.ask("PUT", "/api/v1/projects/default", {"name": "default", "quota": {"gpu": 4}})
            fill(server)
            alone, together = compared(server, lambda: replaying(server), 1 if quick else ROUNDS)
            server.stop_all()
    yield Measured("What if replays: slower decisions", slower_percent(alone, together), 5, "%")


@contextmanager
def replaying(server: Any) -> Iterator[None]:
    """Replay the history with one more node, until the block ends."""
    asked = {"alternatives": ["add-nodes=1x8"], "since": "7d", "seeds": 10}
    status, made = server.ask("POST", "/api/v1/what-if", asked)
    assert status in (200, 201, 202), made
    time.sleep(1.0)
    yield
    found = server.get(f"/api/v1/what-if/{made['id']}")
    assert found["state"] == "running", f"the replay was over too soon: {found['sentence'] or found['state']}"
    server.ask("DELETE", f"/api/v1/what-if/{made['id']}")


def history(quick: bool) -> Iterator[Measured]:
    """Yield how long a year of history takes: the report in the store, and the page."""
    jobs = 2_000 if quick else JOBS
    now_s = time.time()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        with opened(home) as store:
            _year(store, jobs, now_s)
            times = []
            for _ in range(5):
                began = time.perf_counter()
                store.history(now_s - 365 * DAY_S, now_s, "project", now_s=now_s)
                times.append(time.perf_counter() - began)
        server = ServingOnPort(home, 4)
        try:
            painted = _painted(server)
        finally:
            server.end()
    yield Measured(
        f"year of {jobs:,} workloads, report of the store", statistics.median(times) * 1e3, 300, "ms"
    )
    yield Measured(f"year of {jobs:,} workloads, chosen to painted", painted, 300, "ms")


def _year(store: Any, jobs: int, now_s: float) -> None:
    for first in range(0, jobs, TOGETHER):
        begun = {
            at: now_s - 365 * DAY_S * (1 - at / jobs) for at in range(first, min(jobs, first + TOGETHER))
        }
        asked = {
            at: store.submit_soon(submitted(f"job-{at}", "vision", begun_s, user=f"user-{at % 50}"))
            for at, begun_s in begun.items()
        }
        uids = {at: each.result().launch.uid for at, each in asked.items()}
        store.journal.keep([_end(at, begun_s) for at, begun_s in begun.items()], {})
        store.record([_stop(at, uids[at], begun_s) for at, begun_s in begun.items() if at % 20 == 0])
    for day in range(365):
        at_s = now_s - (365 - day) * DAY_S
        rows = [
            UsageSample("vision", "lab", f"user-{user}", "train", "node", DAY_S, DAY_S, DAY_S / 2)
            for user in range(50)
        ]
        store.sample(UsageSamples(at_s, at_s + MINUTE_S, rows))  # a longer time is spread over its minutes
    store.probe()


def _end(at: int, begun_s: float) -> EndWorkload:
    first_s = begun_s + at % 900
    how = WorkloadOutcome.SUCCEEDED
    return EndWorkload(f"job-{at}", how, begun_s + 1000, started_s=first_s, first_started_s=first_s)


def _stop(at: int, uid: int, begun_s: float) -> HistoryEvent:
    numbers = {"rule": "reclaim_quota", "lost_s": 5.0, "gpus": 1.0}
    return HistoryEvent(begun_s, "stopped", "It stopped.", uid, f"job-{at}", "vision", numbers=numbers)


def _painted(server: Any) -> int:
    """Return the milliseconds from the choice of a year to the painted chart."""
    with sync_playwright() as here:
        browser = here.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        page = browser.new_page()
        page.goto(server.link())
        page.locator(".state", has_text="live").wait_for()
        page.goto(f"{server.url}/#/history?since=1d")
        page.wait_for_selector("figure")
        times = []
        for _ in range(5):
            page.get_by_role("button", name="Day").click()
            page.wait_for_timeout(1000)
            times.append(
                page.evaluate(
                    """async () => { const began = performance.now()
                    const old = document.querySelector('.tiles').textContent
                    const buttons = [...document.querySelectorAll('button')]
                    buttons.find(each => each.textContent === 'Year').click()
                    const frame = () => new Promise(requestAnimationFrame)
                    while (document.querySelector('.tiles').textContent === old) await frame()
                    await frame(); return performance.now() - began }"""
                )
            )
        browser.close()
    return round(statistics.median(times))


def kills(quick: bool) -> Iterator[Measured]:
    """Yield how soon a page says that a killed server is gone, and is right again after its restart."""
    count = 5 if quick else 50
    answer, right = [], []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as here:
        server = ServingOnPort(Path(name) / "home", 4)
        browser = here.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        try:
            fill(server)
            page = browser.new_page()
            page.goto(server.link())
            page.goto(f"{server.url}/#/workloads")
            page.locator(".state", has_text="live").wait_for()
            with changes(server, KILL_CHANGES_PER_S):
                for at in range(count):
                    server.submit("true", name=f"more-{at}", gpus=4)
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
        found = server.get("/api/v1/workloads?limit=1000")
        rest = {
            row["name"]: [row["name"], row["project"], row["user"], row["status"], f"{row['devices']:g}"]
            for row in found["items"]
        }
        newest = sorted(found["items"], key=lambda row: -row["uid"])[: len(rows)]
        if rows and rows == [rest[row["name"]] for row in newest] and counted(page) == found["total"]:
            return
        time.sleep(0.02)


def counted(page: Any) -> int:
    """Return the number of workloads that the page says it lists."""
    text: str = page.locator(".chosen .count").inner_text()
    return int(text.split(maxsplit=1)[0].replace(",", "")) if text[:1].isdigit() else -1


WORK = {"viewers": watch, "what_if": replay, "history": history, "kills": kills}


def main() -> None:
    """Measure what is named, side by side with the limits."""
    parser = parser_of("dashboard_server", (__doc__ or "").split("\n", 1)[0])
    parser.add_argument("which", nargs="*", default=list(WORK))
    args = parser.parse_args()
    report((row for name in args.which for row in WORK[name](args.quick)), args.output)


if __name__ == "__main__":
    main()
