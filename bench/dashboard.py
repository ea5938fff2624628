"""Measures the dashboard: weight, time to paint, cost of the stream. Run `python -m bench.dashboard`."""

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
from tests.unit.local.server.server_process import serving

from bench.dashboard_front import front_of
from bench.dashboard_load import viewers
from bench.dashboard_rows import Measured, parser_of, percentile, report
from weir.api.answers import Explanation, WorkloadRow
from weir.local.server.dashboard.live_frames import compressed, workload_columns
from weir.local.server.dashboard.live_hub import TICK_S, LiveTable
from weir.local.server.dashboard.page_files import FOLDER

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
)
PAINTS = 5
VIEWERS = 50
STEPS = 3
WORDS = ("project:project-7", "train-3", "status:pending")
STEP = """async ([name, value]) => {
  const box = document.getElementById('filter'); const began = performance.now()
  if (name === 'filter') { box.value = value; box.dispatchEvent(new Event('input', {bubbles: true})) }
  else document.querySelector(`th.${value} button`).click()
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)))
  return performance.now() - began }"""
SENTENCE = "insufficient capacity: node-17 has 3 GPUs free, a pod asks for 8; vision would hold 40 of 32 GPUs"


def row_of(uid: int) -> WorkloadRow:
    """Return a row as a pool of forty projects would have it."""
    pending = uid % 3 == 0
    return WorkloadRow.model_construct(
        uid=uid,
        name=f"train-{uid % 40}-{uid:06d}",
        project=f"project-{uid % 40}",
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


def weight() -> int:
    """Return the bytes of script and style, compressed as they are served."""
    return sum(path.stat().st_size for path in (FOLDER / "assets").glob("*.gz") if "icon" not in path.name)


def whole_list(count: int) -> tuple[bytes, dict[str, Any]]:
    """Return the first frame of a pool with this number of live workloads, and its cost for the server."""
    table = LiveTable()
    began = time.perf_counter()
    for uid in range(count):
        table.rows[uid] = workload_columns(row_of(uid))
    encoded = time.perf_counter()
    line = table.whole(b'{"trouble":null,"policy":"fair"}')
    packed = compressed(line)
    done = time.perf_counter()
    longest = max(map(len, table.rows.values()))
    return line, {
        "encode_ms": round((encoded - began) * 1e3),
        "compress_ms": round((done - encoded) * 1e3),
        "bytes_a_row_max": longest,
        "kB": len(packed) // 1000,
    }


def painted(browser: Any, server: Any, count: int, limits: tuple[float, float]) -> Iterator[Measured]:
    """Yield how soon rows of a list are painted, and the next frame after a filter and an order."""
    line, cost = whole_list(count)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    with front_of(server.url, line) as url:
        page.goto(url + link(server).removeprefix(server.url))
        page.wait_for_selector("main")
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
        context.close()
    yield Measured(f"longest row of the list of {count:,}", cost["bytes_a_row_max"], 300, "bytes")
    yield Measured(f"navigation to {count:,} rows painted, median", statistics.median(times), limits[0], "ms")
    yield Measured(f"filter {count:,} rows to the next frame, longest", max(filters), limits[1], "ms")
    yield Measured(f"sort {count:,} rows to the next frame, longest", max(sorts), limits[1], "ms")
    yield Measured(f"elements in the page with {count:,} rows", elements, 1500, "")


def link(server: Any) -> str:
    """Return a one-time link."""
    asked = http.client.HTTPConnection(server.url.removeprefix("http://"))
    asked.request("POST", "/api/v1/dashboard/links", "{}", {"Authorization": f"Bearer {server.token}"})
    path: str = json.loads(asked.getresponse().read())["path"]
    return server.url + path


def changes(browser: Any, server: Any, count: int, beside: str = "") -> Iterator[Measured]:
    """Yield how soon a submission is painted, from before its request; `beside` names what else goes on."""
    page = browser.new_context().new_page()
    page.goto(link(server))
    page.goto(f"{server.url}/#/workloads")
    page.wait_for_selector("main h1")
    times = []
    for index in range(count):
        name = f"change{len(beside)}-{index}"
        page.evaluate(
            """name => { window.seen = new Promise(done => {
              const there = () => document.querySelector(`a[title="${name}"]`)
              const look = () => there() ? requestAnimationFrame(() => done(Date.now())) : setTimeout(look, 5)
              look() }) }""",
            name,
        )
        time.sleep(index * 0.618 % 1 * TICK_S)  # changes come at any moment between two frames
        began = time.time()
        server.submit("sleep", "600", name=name, gpus=0.01)
        times.append((page.evaluate("window.seen") / 1e3 - began) * 1e3)
    what = f"change to painted{beside}"
    yield Measured(f"{what}, p50 of {count}", round(percentile(times, 0.5)), 400, "ms")
    yield Measured(f"{what}, p99 of {count}", round(percentile(times, 0.99)), 800, "ms")
    page.context.close()


def rows(quick: bool) -> Iterator[Measured]:
    """Measure all."""
    yield Measured("script and style, gzipped", round(weight() / 1000, 1), 90, "kB")
    with (
        tempfile.TemporaryDirectory() as name,
        serving(Path(name) / "home") as server,
        sync_playwright() as here,
    ):
        browser = here.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield from painted(browser, server, 10_000, (1000, 100))
        if not quick:
            yield from painted(browser, server, 100_000, (2500, 200))
        yield from changes(browser, server, 20 if quick else 200)
        with viewers(server, VIEWERS, [server.token]):
            yield from changes(browser, server, 20 if quick else 200, f" beside {VIEWERS} viewers")
        browser.close()


def main() -> None:
    """Print all, side by side with the limits."""
    args = parser_of("dashboard", (__doc__ or "").split("\n", 1)[0]).parse_args()
    report(rows(args.quick), args.output)


if __name__ == "__main__":
    main()
