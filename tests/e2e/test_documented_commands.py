"""Commands on the pages for one machine run as written, and print what the pages show, in shape."""

import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.documented_commands import Block, Command, blocks, files, shape
from tests.unit.local.server.server_process import Serving, serving
from tools import prefork

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/tutorials/quickstart.md",
    "docs/tutorials/first-sweep.md",
    "docs/tutorials/quotas.md",
    "docs/tutorials/cluster.md",
    "docs/how-to/checkpoints.md",
    "docs/how-to/dashboard.md",
    "docs/how-to/dashboard-researchers.md",
    "docs/how-to/dashboard-team-leads.md",
    "docs/how-to/dashboard-administrators.md",
    "docs/how-to/order.md",
    "docs/how-to/idle.md",
    "docs/how-to/arrays.md",
    "docs/how-to/schedule.md",
    "docs/how-to/templates.md",
    "docs/how-to/sessions.md",
    "docs/how-to/sweeps.md",
    "docs/how-to/notebooks.md",
    "docs/how-to/secrets.md",
    "docs/how-to/notifications.md",
    "docs/how-to/elastic.md",
    "docs/how-to/containers.md",
    "docs/how-to/install.md",
    "docs/how-to/sign-in.md",
    "docs/how-to/out-of-service.md",
    "docs/how-to/from-nvidia-smi.md",
    "docs/how-to/backup.md",
    "docs/how-to/grafana.md",
    "docs/how-to/troubleshooting.md",
    "docs/how-to/simulate.md",
    "docs/how-to/from-slurm.md",
    "docs/how-to/slurm-scripts.md",
)
READS = {"list", "top", "why", "status", "events", "nodes", "logs", "describe"}
"""Commands that change nothing: they are asked again until they print what the page shows."""
READS_OF_GROUPS = {("sweep", "list"), ("sweep", "show"), ("sweep", "best")}
WITHIN_S = 120.0
TRAIN = "import time\nprint('training', flush=True)\ntime.sleep(600)\n"


class Shell:
    """Runs `weir` as the administrator of a pool, in a directory with the files that the pages name."""

    def __init__(self, server: Serving) -> None:
        self.server = server
        self.directory = Path()
        names = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
        path = f"{Path(sys.executable).parent}:{names['PATH']}"
        self._environment = names | {"WEIR_HOME": str(server.home), "COLUMNS": "200", "PATH": path}

    def run(self, text: str) -> tuple[int, str]:
        """Return exit code and output of one command line; `> FILE` at its end goes to a file."""
        words = shlex.split(text, comments=True)
        assert words[0] == "weir", f"mark this block as not run, with a reason: {text}"
        to = None
        if len(words) > 2 and words[-2] == ">":
            to, words = self.directory / words[-1], words[:-2]
        command = [sys.executable, "-m", *words]
        done = prefork.run(command, env=self._environment, cwd=self.directory, timeout=WITHIN_S)
        answer = done.stdout + done.stderr
        if to is not None:
            to.write_text(answer, "utf-8")
        return done.returncode, answer

    def make_new(self) -> None:
        """Make the pool what it was when it was new."""
        self.server.stop_all()
        for kind in ("projects", "departments"):
            for row in self.server.get(f"/api/v1/{kind}")["items"]:
                self.server.ask("DELETE", f"/api/v1/{kind}/{row['name']}")
        status, answer = self.server.ask(
            "PUT", "/api/v1/projects/default", {"name": "default", "quota": {"gpu": 8}}
        )
        assert status in (200, 201), answer


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A pool with eight virtual GPUs, and a shell to use it, for all pages."""
    with serving(tmp_path_factory.mktemp("docs") / "home", gpus=8) as server:
        yield Shell(server)


def _fill_directory(directory: Path) -> None:
    """Make a directory look like a clone, with the files that the pages let the reader write."""
    for name in ("docs", "examples", "deploy"):
        (directory / name).symlink_to(ROOT / name)
    for file in (ROOT / "examples").glob("*.[py]*"):
        (directory / file.name).symlink_to(file)
    (directory / "train.py").write_text(TRAIN)
    (directory / "token.txt").write_text("hf_1234\n")


@pytest.fixture
def shell(pool: Shell, tmp_path: Path) -> Iterator[Shell]:
    """The pool as it was when it was new, and a clone to stand in."""
    _fill_directory(tmp_path)
    pool.directory = tmp_path
    yield pool
    pool.make_new()


def _is_new_pool(command: Command) -> bool:
    """Return True if a command starts the pool, which the tests have done."""
    return command.text.startswith("weir up")


def _reads(command: Command) -> bool:
    """Return True if a command changes nothing."""
    words = command.text.split()
    return words[1] in READS or tuple(words[1:3]) in READS_OF_GROUPS


def _check(shell: Shell, page: str, command: Command) -> None:
    """Run one command until it prints what its page shows."""
    where = f"{page}:{command.line}: {command.text}"
    wanted = shape(command.output, is_complete=command.text.startswith("weir why") and bool(command.output))
    until = time.monotonic() + WITHIN_S
    while True:
        code, answer = shell.run(command.text)
        if code == 0 and wanted.search(" ".join(answer.split())):
            return
        may_ask_again = _reads(command) and time.monotonic() < until
        assert may_ask_again, f"{where}\n{answer}\nends with {code}, and should print\n{command.output}"
        time.sleep(0.5)


def _walk(shell: Shell, page: str) -> None:
    """Write the files of one page, and run its commands in order."""
    for name, text in files(ROOT / page).items():
        (shell.directory / name).write_text(text, "utf-8")
    for block in blocks(ROOT / page):
        if block.reason is None:
            for command in block.commands:
                if not _is_new_pool(command):
                    _check(shell, page, command)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_print_what_it_shows(page: str, shell: Shell) -> None:
    _walk(shell, page)


def test_tutorials_fit_together_in_the_order_of_the_docs(tmp_path: Path) -> None:
    order = re.findall(r"^(tutorials/[\w-]+)$", (ROOT / "docs/index.md").read_text("utf-8"), re.MULTILINE)
    assert len(order) > 1
    with serving(tmp_path / "home", gpus=8) as server:
        shell = Shell(server)
        _fill_directory(tmp_path)
        shell.directory = tmp_path
        for page in order:
            _walk(shell, f"docs/{page}.md")


def test_a_complete_output_has_every_suggestion() -> None:
    shown = "What would let it start\n  - With 4 devices instead of 8.\n    weir submit --gpus 4 ..."
    assert shape(shown, is_complete=True).search(shown)
    assert not shape(shown, is_complete=True).search(f"{shown} - It would start now if small ended.")


def test_every_page_for_one_machine_is_run() -> None:
    pages = {*(ROOT / "docs/tutorials").glob("*.md"), *(ROOT / "docs/how-to").glob("*.md")}
    assert {str(page.relative_to(ROOT)) for page in pages} | {"README.md"} == set(PAGES)


def test_blocks_that_are_not_run_say_why() -> None:
    reasons = [block.reason for page in PAGES for block in blocks(ROOT / page) if block.reason is not None]
    assert reasons
    assert all(len(reason.split()) >= 3 for reason in reasons)


def test_shapes_tell_outputs_apart() -> None:
    wanted = shape("big  default  mia  pending  8  0/1  2m9s  Insufficient capacity: box has 7…")
    assert wanted.search("big default root pending 16 0/2 5s Insufficient capacity: vm-3 has 12 GPUs free")
    assert not wanted.search("big default root running 16 0/2 5s Insufficient capacity: vm has 12 GPUs free")
    assert not wanted.search("big default root pending 16 0/2 5s")


def test_files_of_a_page_are_no_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- file: a.sh -->\n```bash\n#!/bin/sh\ntrue\n```\n\n```console\n$ b\n```\n")
    assert files(page) == {"a.sh": "#!/bin/sh\ntrue\n"}
    assert blocks(page) == [Block(7, (Command(8, "b", ""),), None)]


def test_commands_are_found_with_their_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: needs a cluster -->\n```console\n$ a\n```\n\n```console\n$ b \\\n  c\nd\n$ e\n```\n"
    )
    assert blocks(page) == [
        Block(2, (Command(3, "a", ""),), "needs a cluster"),
        Block(6, (Command(7, "b c", "\nd"), Command(10, "e", "")), None),
    ]
