"""Other sites in the same browser, and scripts in what people write, do nothing."""

import http.server
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .pages import WITHIN_MS, go, until
from .serving import ServingOnPort

SCRIPT = "<img src=x onerror=alert(1)>"
REPORTS = f"""
import time, weir
print({SCRIPT!r}, flush=True)
for step in range(100000):
    weir.report(step=step, loss=1 / (step + 1), **{{{SCRIPT!r}: 0.5}})
    time.sleep(0.5)
"""
FORGED = """async url => {
  const body = JSON.stringify({name: 'forged', project: 'vision', command: ['true'], pods: [{gpus: 0}]})
  const answers = []
  for (const headers of [{'Content-Type': 'text/plain'}, {'Content-Type': 'application/json'}])
    for (const mode of ['no-cors', 'cors'])
      try {
        const sent = await fetch(url + '/api/v1/workloads', {method: 'POST', credentials: 'include', mode, headers, body})
        answers.push(await sent.text())
      } catch (error) { answers.push('') }
  try { answers.push(await (await fetch(url + '/api/v1/workloads', {credentials: 'include'})).text()) }
  catch (error) { answers.push('') }
  return answers }"""


@pytest.fixture
def other_site() -> Iterator[str]:
    """A program on another port of this machine: browsers send it no cookie of the pool, but the pool's own."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<!doctype html><title>other</title><body>another site"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Print nothing."""

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{site.server_port}"
    site.shutdown()
    thread.join()
    site.server_close()


def test_other_site_changes_reads_and_frames_nothing(
    browser: Any, server: ServingOnPort, other_site: str
) -> None:
    context = browser.new_context()
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    page.goto(server.link())
    page.locator(".state", has_text="live").wait_for()
    other = context.new_page()
    other.goto(other_site)
    assert other.evaluate(FORGED, server.url) == [""] * 5
    other.evaluate(
        "url => { const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame) }",
        server.url,
    )
    until(other, lambda: len(other.frames) == 2 and other.frames[1].url.startswith("chrome-error:"))
    assert "forged" not in {
        row["name"] for row in server.get("/api/v1/workloads?all=true&limit=1000")["items"]
    }
    context.close()


def test_scripts_in_reasons_metrics_logs_and_addresses_do_nothing(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(screen=f"workloads?q={SCRIPT}")  # `opened` fails with any dialog, error or foreign request
    page.get_by_text("No workload matches the filter.").wait_for()
    command = [sys.executable, "-c", REPORTS]
    row = server.submit(*command, name="hostile", project="vision")
    server.until("hostile", "running")
    go(page, server, f"workload/{row['uid']}")
    page.get_by_role("region", name="Output").get_by_text(SCRIPT).first.wait_for()
    curves = page.get_by_role("region", name="Curves").locator("figcaption")
    curves.get_by_text(SCRIPT).wait_for()  # after the next reading
    curves.get_by_text("loss").wait_for()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download").click()
    assert saving.value.path().read_text().startswith(SCRIPT)
    page.get_by_role("tab", name="Specification").click()
    page.get_by_text("To reproduce it").wait_for()
    for screen in ("nodes", "quotas", "history", "activity", "workload", "what-if"):
        go(page, server, f"{screen}/{SCRIPT}")
        page.locator("h1, p").first.wait_for()
    server.ask("POST", f"/api/v1/workloads/{row['uid']}/stop")
    server.until(str(row["uid"]), "stopped")
