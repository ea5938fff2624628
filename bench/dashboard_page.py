"""The page in a browser: its weight, the time to paint lists, filters and orders, and a change on its way."""

import http.client
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from tests.browser.serving import CHROMIUM
from tests.unit.local.server.server_process import serving
from tests.unit.store.fixtures import opened, submitted

from bench.dashboard_front import front_of
from bench.dashboard_load import new_tokens, viewers
from bench.dashboard_rows import Measured, percentile
from weir.api.answers import Explanation, WorkloadRow
from weir.dashboard.live_frames import workload_columns
from weir.dashboard.live_table import LiveTable
from weir.dashboard.page_bundle import FOLDER
from weir.local.server.dashboard.live_hub import TICK_S
from weir.model.queues import Queue

PAINTS = 5
VIEWERS = 50
STEPS = 3
LIVE, MANY_LIVE = 10_000, 100_000
PROJECTS = 40
SEEN_MS_MAX = 60_000
WORDS = ("user:user-7", "train-3", "status:pending")
STEP = """async ([name, value]) => {
  const box = document.getElementById('filter'); const began = performance.now()
  if (name === 'filter') { box.value = value; box.dispatchEvent(new Event('input', {bubbles: true})) }
  else document.querySelector(`th.${value} button`).click()
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)))
  return performance.now() - began }"""
SEEN = """([name, most]) => { window.seen = new Promise((done, fail) => {
  const shown = () => document.querySelector('main').innerText.slice(0, 300)
  setTimeout(() => fail(new Error(`${name} isn't painted: ${shown()}`)), most)
  const there = () => document.querySelector(`a[title="${name}"]`)
  const look = () => there() ? requestAnimationFrame(() => done(Date.now())) : setTimeout(look, 5)
  look() }) }"""
SENTENCE = "insufficient capacity: node-17 has 3 GPUs free, a pod asks for 8; vision would hold 40 of 32 GPUs"


def row_of(uid: int) -> WorkloadRow:
    """Return a row as a pool of forty projects would have it."""
    pending = uid % 3 == 0
    return WorkloadRow.model_construct(
        uid=uid,
        name=f"train-{uid % 40}-{uid:06d}",
        project=f"project-{uid % PROJECTS}",
        user=f"user-{uid % 200}",
        type="train",
        status="pending" if pending else "running",
        priority=50,
        preemptible=True,
        devices=float(1 << uid % 4),
        pods=1,
        pods_running=int(not pending),
        submitted_s=1.79e9 - uid,
        started_s=None if pending else 1.79e9 - uid / 2,
        reason=Explanation(why="insufficient_capacity", sentence=SENTENCE) if pending else None,
    )


def whole_list(count: int) -> tuple[bytes, int]:
    """Return the first frame of a pool with this many workloads, and the bytes of its longest row."""
    table = LiveTable()
    for uid in range(count):
        table.rows[uid] = workload_columns(row_of(uid))
    return table.whole(b'{"trouble":null,"policy":"fair"}'), max(map(len, table.rows.values()))


def seed_live(home: Path, count: int) -> None:
    """Add live workloads of forty projects, whose limits let none of them start."""
    with opened(home, migrated=False) as store:
        for index in range(PROJECTS):
            store.set_queue(Queue(f"live-{index}", quota={}, limit={"gpu": 0}))
        kept = []
        for uid in range(count):
            row = row_of(uid)
            record = submitted(row.name, f"live-{uid % PROJECTS}", time.time() - count + uid, user=row.user)
            kept.append(store.workloads.submit(record))
        for submission in kept:
            submission.result()


def measured(page: Any, url: str, count: int, limits: tuple[float, ...], target: str) -> Iterator[Measured]:
    """Yield how soon rows of a list are painted, and the next frame after a filter and an order."""
    most, aim, frame, frame_aim = limits
    page.goto(f"{url}/#/workloads")
    times = []
    for _ in range(PAINTS):
        page.reload()
        page.wait_for_selector("tbody a")
        times.append(page.evaluate("new Promise(d => requestAnimationFrame(() => d(performance.now())))"))
    filters = [page.evaluate(STEP, ["filter", word]) for word in WORDS for _ in range(STEPS)]
    page.evaluate(STEP, ["filter", ""])
    sorts = [page.evaluate(STEP, ["sort", column]) for column in ("h0", "h5", "h7", "h1") * STEPS]
    elements = page.evaluate("document.querySelectorAll('*').length")
    yield Measured(f"navigation to {target} painted, median", statistics.median(times), most, "ms", aim)
    yield Measured(f"filter {count:,} rows to the next frame, longest", max(filters), frame, "ms", frame_aim)
    yield Measured(f"sort {count:,} rows to the next frame, longest", max(sorts), frame, "ms", frame_aim)
    yield Measured(f"elements in the page with {count:,} rows", elements, 1500, "", 1000)


def new_page(browser: Any, address: str, others: list[str]) -> Any:
    """Return a page that a link has signed in; requests to other hosts are added to a list."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    own = address.partition("/#")[0]
    page.on("request", lambda sent: None if sent.url.startswith(own) else others.append(sent.url))
    page.goto(address)
    page.locator(".state", has_text="live").wait_for()
    return page


def link(server: Any) -> str:
    """Return the path of a one-time link."""
    asked = http.client.HTTPConnection(server.url.removeprefix("http://"))
    asked.request("POST", "/api/v1/dashboard/links", "{}", {"Authorization": f"Bearer {server.token}"})
    path: str = json.loads(asked.getresponse().read())["path"]
    return path


def live_rows(browser: Any, server: Any, ended: int) -> Iterator[Measured]:
    """Yield the figures of a server with 10,000 live workloads and many ended ones."""
    others: list[str] = []
    page = new_page(browser, server.url + link(server), others)
    title = f"rows of {LIVE:,} live, {ended:,} ended"
    yield from measured(page, server.url, LIVE, (1000, 600, 100, 40), title)
    page.context.close()
    yield Measured("requests to other hosts", len(others), 0, "", 0)


def many_rows(browser: Any) -> Iterator[Measured]:
    """Yield the figures of a list of 100,000, which a server in front of the pool's answers."""
    line, longest = whole_list(MANY_LIVE)
    yield Measured("longest row of a list", longest, 300, "bytes")
    with (
        tempfile.TemporaryDirectory() as name,
        serving(Path(name) / "home") as server,
        front_of(server.url, line) as url,
    ):
        page = new_page(browser, url + link(server), [])
        yield from measured(page, url, MANY_LIVE, (2500, 1500, 200, 110), f"rows of {MANY_LIVE:,} live")
        page.context.close()


def changes(browser: Any, server: Any, count: int, beside: str = "") -> Iterator[Measured]:
    """Yield how soon a submission is painted, from before its request; `beside` names what else goes on."""
    page = new_page(browser, server.url + link(server), [])
    page.goto(f"{server.url}/#/workloads")
    page.wait_for_selector("main h1")
    times = []
    for index in range(count):
        name = f"change{len(beside)}-{index}"
        page.evaluate(SEEN, [name, SEEN_MS_MAX])
        time.sleep(index * 0.618 % 1 * TICK_S)  # changes come at any moment between two frames
        began = time.time()
        server.submit("sleep", "600", name=name, gpus=0.01)
        times.append((page.evaluate("window.seen") / 1e3 - began) * 1e3)
    title = f"change to painted{beside}"
    yield Measured(f"{title}, p50 of {count}", round(percentile(times, 0.5)), 400, "ms", 300)
    yield Measured(f"{title}, p99 of {count}", round(percentile(times, 0.99)), 800, "ms", 600)
    page.context.close()


def page(quick: bool) -> Iterator[Measured]:
    """Yield the figures of the page in a browser."""
    weight = sum(path.stat().st_size for path in (FOLDER / "assets").glob("*.gz") if "icon" not in path.name)
    yield Measured("script and style, gzipped", round(weight / 1000, 1), 90, "kB", 60)
    count = 20 if quick else 200
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        if not quick:
            yield from many_rows(browser)
        with tempfile.TemporaryDirectory() as name, serving(Path(name) / "home") as server:
            yield from changes(browser, server, count)
            server.stop_all()
            with viewers(server, VIEWERS, new_tokens(server)):
                yield from changes(browser, server, count, f" beside {VIEWERS} viewers")
        browser.close()
