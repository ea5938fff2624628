"""Sessions in a real browser: Jupyter and code-server over a restart, and pages that are hostile."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.ssh_session import until
from tests.session_programs import need_programs

from .conftest import missing
from .notebook_page import open_notebook, run_cell
from .serving import ServingOnPort

PROGRAM = Path(__file__).parents[1] / "e2e" / "session_program.py"
HOSTILE = """<!doctype html><title>hostile</title><script>
const pool = 'POOL'
async function attack() {
  const said = []
  const body = JSON.stringify({name: 'forged', project: 'default', command: ['true'], pods: [{gpus: 0}]})
  for (const credentials of ['include', 'omit'])
    for (const mode of ['no-cors', 'cors'])
      for (const type of ['text/plain', 'application/json'])
        try {
          const sent = await fetch(pool + '/api/v1/workloads', {method: 'POST', credentials, mode, headers: {'Content-Type': type}, body})
          said.push(await sent.text())
        } catch (error) { said.push('') }
  for (const path of ['/api/v1/workloads', '/api/v1/dashboard/session'])
    try { said.push(await (await fetch(pool + path, {credentials: 'include'})).text()) } catch (error) { said.push('') }
  try { said.push(await (await fetch('/api/v1/workloads', {credentials: 'include'})).json()) } catch (error) { said.push('') }
  const frame = document.createElement('iframe')
  frame.src = pool
  document.body.append(frame)
  await new Promise(resolve => setTimeout(resolve, 1000))
  try { said.push(frame.contentWindow.localStorage.length ? 'read' : '') } catch (error) { said.push('') }
  let opened = ''
  try { opened = window.open(pool).document.title } catch (error) { opened = '' }
  return {said, opened, cookie: document.cookie, kept: Object.keys(localStorage).concat(Object.keys(sessionStorage)).length}
}
</script><body>"""

PASTE = """(area, text) => {
  const clipboardData = new DataTransfer()
  clipboardData.setData('text/plain', text)
  area.dispatchEvent(new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true}))
}"""


class OwnPool(ServingOnPort):
    """A personal pool whose port of sessions stays the same."""

    def link_to(self, name: str) -> str:
        found: list[str] = []

        def is_made() -> bool:
            status, answer = self.ask("POST", f"/api/v1/workloads/{name}/session")
            assert status in (201, 409), (answer, self.get(f"/api/v1/workloads/{name}/logs"))
            found.append(answer.get("url", ""))
            return status == 201

        until(is_made)
        return found[-1]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPool]:
    if (answer := missing()) is not None:
        if os.environ.get("WEIR_BROWSER") == "required":
            pytest.fail(answer)
        pytest.skip(answer)
    os.environ.setdefault("PYTHONPATH", "src")
    found = OwnPool(tmp_path_factory.mktemp("s"), 2)
    try:
        yield found
        found.stop_all()
    finally:
        if found.process.poll() is None:
            found.end()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    context.set_default_timeout(120_000)
    yield context
    context.close()


def test_a_hostile_page_does_nothing_with_the_session_of_its_viewer(
    pool: OwnPool, context: Any, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(HOSTILE.replace("POOL", pool.url))
    pool.submit(
        sys.executable, str(PROGRAM), name="hostile", gpus=0, session="jupyter", env={"PAGE": str(file)}
    )
    pool.until("hostile", "running")
    dashboard = context.new_page()
    dashboard.goto(pool.link())
    dashboard.locator(".state", has_text="live").wait_for()
    page = context.new_page()
    page.goto(pool.link_to("hostile").replace("/?", "/page?"))
    assert page.title() == "hostile"
    found = page.evaluate("attack()")
    assert set(found["said"]) == {""}, found
    assert found["opened"] == ""
    assert found["kept"] == 0
    assert "weir" not in found["cookie"]
    names = {row["name"] for row in pool.get("/api/v1/workloads?all=true&limit=1000")["items"]}
    assert "forged" not in names
    dashboard.reload()
    dashboard.locator(".state", has_text="live").wait_for()


def test_another_program_of_this_machine_gets_nothing_by_the_browser(pool: OwnPool, context: Any) -> None:
    """A page on another port is of the same site: cookies are sent, and the answers stay closed."""
    pool.submit(sys.executable, str(PROGRAM), name="victim", gpus=0, session="jupyter")
    pool.until("victim", "running")
    page = context.new_page()
    page.goto(pool.link_to("victim"))
    address = page.url
    other = context.new_page()
    other.goto(pool.url)
    found = other.evaluate(
        """async address => {
          const said = []
          for (const mode of ['no-cors', 'cors'])
            for (const method of ['GET', 'POST'])
              try { const sent = await fetch(address, {mode, method, credentials: 'include'}); said.push(sent.type + sent.status) }
              catch (error) { said.push('') }
          const socket = new WebSocket(address.replace('http', 'ws') + 'socket')
          said.push(await new Promise(done => { socket.onopen = () => done('open'); socket.onerror = () => done('') }))
          return said }""",
        address,
    )
    assert set(found) <= {"", "opaque0"}, found


def test_a_kernel_is_there_again_after_a_restart_of_the_server(
    pool: OwnPool, context: Any, tmp_path: Path
) -> None:
    env = {"HOME": str(tmp_path), "PATH": f"{need_programs().path}:{os.environ['PATH']}"}
    pods = [{"gpus": 1, "memory": "2Gi"}]
    pool.submit("jupyter-lab", name="notes", session="jupyter", directory=str(tmp_path), env=env, pods=pods)
    pool.until("notes", "running")
    page = context.new_page()
    open_notebook(page, pool.link_to("notes"))
    run_cell(page, "import os; x = 6 * 7; print('first', x, os.environ['WEIR_WORKLOAD'])", "first 42 notes")
    (kernel,) = tmp_path.glob(".local/share/jupyter/runtime/kernel-*.json")
    assert "curve_publickey" in json.loads(kernel.read_text()), "other accounts can read its output"
    pool.end(signal.SIGKILL)
    pool.begin()
    run_cell(page, "print('second', x)", "second 42")


def test_a_terminal_of_code_server_is_in_the_workload_and_there_again_after_a_restart(
    pool: OwnPool, context: Any, tmp_path: Path
) -> None:
    env = {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{need_programs().path}:{os.environ['PATH']}",
        "SHELL": "/bin/sh",
    }
    (work := tmp_path / "work").mkdir()
    (work / "train.py").touch()
    pods = [{"gpus": 1, "memory": "4Gi"}]
    command = ("code-server", "--disable-workspace-trust")
    pool.submit(*command, name="editor", session="code", directory=str(work), env=env, pods=pods)
    pool.until("editor", "running")
    page = context.new_page()
    page.goto(pool.link_to("editor"))
    page.get_by_role("treeitem", name="train.py").wait_for()
    page.keyboard.press("Control+Backquote")
    page.locator(".terminal.xterm").wait_for()
    _paste(page, "echo $WEIR_WORKLOAD $$ > first", work / "first")
    name, shell = (work / "first").read_text().split()
    assert name == "editor"
    pool.end(signal.SIGKILL)
    pool.begin()
    _paste(page, "echo $$ > second", work / "second")
    assert (work / "second").read_text().split() == [shell]


def _paste(page: Any, command: str, made: Path) -> None:
    """Paste a command into a terminal, again until it has made a file: it is lost without a connection.

    No key is pressed. A page without a connection asks whether to load it again, and Enter would say yes: the
    terminal would be another one.
    """

    def is_made() -> bool:
        page.locator(".terminal.xterm .xterm-helper-textarea").evaluate(PASTE, f"\n{command}\n")
        page.wait_for_timeout(1000)
        return made.exists() and made.stat().st_size > 0

    until(is_made)
