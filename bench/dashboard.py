"""Measures the dashboard: weight, time to paint, cost of the stream. Run `python -m bench.dashboard`."""

import argparse
import http.client
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from tests.unit.local.server.server_process import serving

from weir.api.answers import Explanation, WorkloadRow
from weir.local.server.dashboard.live_frames import COLUMNS, compressed, workload_columns
from weir.local.server.dashboard.live_hub import LiveTable
from weir.local.server.dashboard.page_files import FOLDER

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
)
CHANGES = 20
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


def painted(browser: Any, server: Any, count: int, line: bytes) -> dict[str, Any]:
    """Return how soon rows of a list are painted, and the next frame after a filter and an order."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    fresh = [True]  # the list comes once for each load of the page
    page.on("framenavigated", lambda _: fresh.__setitem__(slice(None), [True]))

    def answer(route: Any) -> None:
        if fresh.pop() if fresh else False:
            route.fulfill(status=200, body=line)

    page.route("**/api/v1/dashboard/stream", answer)
    page.goto(link(server))
    page.wait_for_selector("main")
    page.goto(f"{server.url}/#/workloads")
    times = []
    for _ in range(3):
        page.reload()
        page.wait_for_selector("tbody a")
        times.append(page.evaluate("new Promise(d => requestAnimationFrame(() => d(performance.now())))"))
    step = """async ([name, value]) => {
      const box = document.getElementById('filter'); const began = performance.now()
      if (name === 'filter') { box.value = value; box.dispatchEvent(new Event('input', {bubbles: true})) }
      else document.querySelector(`th.${value} button`).click()
      await new Promise(done => requestAnimationFrame(() => setTimeout(done)))
      return performance.now() - began }"""
    filters = [
        page.evaluate(step, ["filter", word]) for word in ("project:project-7", "train-3", "status:pending")
    ]
    page.evaluate(step, ["filter", ""])
    sorts = [page.evaluate(step, ["sort", column]) for column in ("h0", "h5", "h7")]
    elements = page.evaluate("document.querySelectorAll('*').length")
    context.close()
    return {
        "rows": count,
        "painted_ms": round(statistics.median(times)),
        "filter_ms": round(max(filters)),
        "sort_ms": round(max(sorts)),
        "elements": elements,
    }


def link(server: Any) -> str:
    """Return a one-time link."""
    asked = http.client.HTTPConnection(server.url.removeprefix("http://"))
    asked.request("POST", "/api/v1/dashboard/links", "{}", {"Authorization": f"Bearer {server.token}"})
    path: str = json.loads(asked.getresponse().read())["path"]
    return server.url + path


def changes(browser: Any, server: Any) -> dict[str, Any]:
    """Return how soon a submission that REST has accepted is painted."""
    page = browser.new_context().new_page()
    page.goto(link(server))
    page.goto(f"{server.url}/#/workloads")
    page.wait_for_selector("main h1")
    times = []
    for index in range(CHANGES):
        name = f"change-{index}"
        page.evaluate(
            """name => { window.seen = new Promise(done => {
              const there = () => document.querySelector(`a[title="${name}"]`)
              const look = () => there() ? requestAnimationFrame(() => done(Date.now())) : setTimeout(look, 5)
              look() }) }""",
            name,
        )
        began = time.time()
        server.submit("sleep", "600", name=name, gpus=0.1)
        times.append(page.evaluate("window.seen") / 1e3 - began)
    times.sort()
    return {"p50_ms": round(times[len(times) // 2] * 1e3), "max_ms": round(times[-1] * 1e3)}


def main() -> None:
    """Measure all, side by side with the limits."""
    parser = argparse.ArgumentParser(prog="bench.dashboard", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="only the list of 10,000 rows")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    print(f"script and style, gzipped: {weight() / 1000:.1f} kB of 90; columns of a row: {len(COLUMNS)}")
    with (
        tempfile.TemporaryDirectory() as name,
        serving(Path(name) / "home") as server,
        sync_playwright() as here,
    ):
        browser = here.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        for count, must_ms in ((10_000, 1000), (100_000, 2500))[: 1 if args.quick else 2]:
            line, cost = whole_list(count)
            print(f"list of {count:,} in the server: {cost}")
            print(f"page, {must_ms} ms to paint at most: {painted(browser, server, count, line)}")
        print(f"change to painted, 400 ms p50 and 800 ms p99 at most: {changes(browser, server)}")
        browser.close()


if __name__ == "__main__":
    main()
