"""Measures the server of the dashboard: 50 viewers, a year of history, kill -9 under a page.

python -m bench.dashboard_server [viewers history kills] [--quick]
"""

import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from tests.browser.conftest import CHROMIUM, ServingOnPort
from tests.unit.local.server.server_process import serving
from tests.unit.store.fixtures import opened, submitted

from weir.control.port import EndWorkload
from weir.state.events import WorkloadOutcome
from weir.store import HistoryEvent, UsageSample, UsageSamples

VIEWERS = 50
LOAD_S = 10.0
TOGETHER = 500
DAY_S = 86400.0
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line)
    return int(line.split()[1]) / 1000


def view(server: Any, token: str) -> socket.socket:
    """Open the live stream, and read it in a thread until the socket is closed."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    found = socket.create_connection((host, int(port)))
    head = f"GET /api/v1/dashboard/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    found.sendall(f"{head}\r\n".encode())

    def read() -> None:
        try:
            while found.recv(1 << 16):
                pass
        except OSError:
            return

    threading.Thread(target=read, daemon=True).start()
    return found


def load(server: Any) -> tuple[float, int]:
    """Change a priority as often as one client can; return the share of a core, and changes a second."""
    asked = http.client.HTTPConnection(server.url.removeprefix("http://"))
    headers = {"Authorization": f"Bearer {server.token}"}
    began_s, began_cpu_s, changes = time.monotonic(), cpu_s(server.process.pid), 0
    while (passed_s := time.monotonic() - began_s) < LOAD_S:
        body = json.dumps({"priority": changes % 50})
        asked.request("POST", f"/api/v1/workloads/waits-{changes % 100}/priority", body, headers)
        asked.getresponse().read()
        changes += 1
        time.sleep(max(0.0, began_s + changes / 80 - time.monotonic()))
    return (cpu_s(server.process.pid) - began_cpu_s) / passed_s, round(changes / passed_s)


def viewers() -> dict[str, Any]:
    """Return what 50 viewers cost the server, beyond the same changes without any."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "home") as server:
        for at in range(100):
            server.submit("true", name=f"waits-{at}", gpus=4, priority=1)
            server.ask("POST", f"/api/v1/workloads/waits-{at}/suspend")
        time.sleep(2.0)
        alone, changes = load(server)
        before_mb = memory_mb(server.process.pid)
        tokens = [
            server.ask("POST", "/api/v1/tokens", {"user": f"user-{at}", "projects": ["default"]})[1]["token"]
            for at in range(5)
        ]
        open_ = [view(server, tokens[at % 5]) for at in range(VIEWERS)]
        time.sleep(2.0)
        together, seen = load(server)
        grown_mb = memory_mb(server.process.pid) - before_mb
        for each in open_:
            each.close()
    share = round(100 * (together - alone), 1)
    return {
        "core_percent": share,
        "core_percent_max": 15,
        "MB": round(grown_mb, 1),
        "MB_max": 60,
        "changes_a_s": [changes, seen],
    }


def history(jobs: int) -> dict[str, Any]:
    """Return how long a year of history takes: the report in the store, and the page."""
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
    report = round(statistics.median(times) * 1e3)
    return {"jobs": jobs, "report_ms": report, "painted_ms": painted, "painted_ms_max": 300}


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
        store.sample(UsageSamples(at_s, at_s + DAY_S, rows))
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


def kills(count: int) -> dict[str, Any]:
    """Return how soon a page says that a killed server is gone, and is right again after its restart."""
    said, right = [], []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as here:
        server = ServingOnPort(Path(name) / "home", 4)
        browser = here.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        try:
            page = browser.new_page()
            page.goto(server.link())
            page.goto(f"{server.url}/#/workloads")
            page.locator(".state", has_text="live").wait_for()
            for at in range(count):
                server.submit("sleep", "1000", name=f"run-{at}", gpus=0.05)
                began = time.monotonic()
                server.kill()
                page.get_by_text("No connection to the server").wait_for()
                said.append(time.monotonic() - began)
                server.begin()
                began = time.monotonic()
                page.locator(".state", has_text="live").wait_for(timeout=60_000)
                rest = {row["name"] for row in server.get("/api/v1/workloads?limit=1000")["items"]}
                while set(page.get_by_role("table").locator("tbody a").all_inner_texts()) != rest:
                    time.sleep(0.02)
                right.append(time.monotonic() - began)
            server.stop_all()
        finally:
            browser.close()
            if server.process.poll() is None:
                server.end()
    return {
        "kills": count,
        "said_s": round(max(said), 2),
        "said_s_max": 2,
        "right_s": round(max(right), 2),
        "right_s_max": 3,
    }


def main() -> None:
    """Measure what is named, side by side with the limits."""
    about = (__doc__ or "").split("\n", 1)[0]
    parser = argparse.ArgumentParser(prog="bench.dashboard_server", description=about)
    parser.add_argument("which", nargs="*", default=["viewers", "history", "kills"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    jobs, count = (2_000, 5) if args.quick else (100_000, 50)
    work = {"viewers": viewers, "history": lambda: history(jobs), "kills": lambda: kills(count)}
    found = {name: work[name]() for name in args.which}
    if args.output == "json":
        print(json.dumps([{"name": name, **row} for name, row in found.items()]))
    for name, row in found.items() if args.output == "text" else ():
        print(f"{name}: {row}", flush=True)


if __name__ == "__main__":
    main()
