"""Rules of the house that no tool checks: what the core may import, what is pinned, what CI runs."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "weir"
PURE = ("engine", "state")
KNOWS_THE_WORLD = {
    *("asyncio", "concurrent", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "random"),
    *("secrets", "signal", "socket", "subprocess", "tempfile", "threading", "time", "uuid"),
}
ALLOWED = (set(sys.stdlib_module_names) - KNOWS_THE_WORLD) | {"numpy"}


def imports(file: Path) -> Iterator[str]:
    """What a module imports, wherever it does."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("room", PURE)
def test_the_core_needs_its_nouns_and_numpy(room: str) -> None:
    below = {
        "engine": ("weir.model", "weir.state", "weir.engine"),
        "state": ("weir.model", "weir.state"),
    }
    for file in (SOURCE / room).rglob("*.py"):
        for module in imports(file):
            own = module.startswith(below[room])
            assert own or module.split(".")[0] in ALLOWED, f"{file.name} imports {module}"


def test_pins_name_versions_and_hashes_and_nothing_else() -> None:
    text = (ROOT / "constraints.txt").read_text().replace(" \\\n", "\n")
    pin = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; [a-zA-Z0-9_.<>=!' ]+)?")
    pinned: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith(" "):
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line)
            pinned[-1].append(line)
        else:
            assert pin.fullmatch(line), line
            pinned.append([])
    assert len(pinned) > 10
    assert all(pinned), "every package has a hash"


def test_the_entry_of_ci_can_be_run() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)


def test_one_module_talks_to_the_api_server() -> None:
    speak = {file.name for file in SOURCE.rglob("*.py") if {"aiohttp", "httptools"} & set(imports(file))}
    assert speak == {"http_connection.py", "webhook_server.py"}  # the second answers there, it asks nothing
    used = {"connection_pool": {"client.py"}, "http_connection": {"connection_pool.py", "client.py"}}
    for name, by in used.items():
        module = f"weir.kubernetes.api.{name}"
        assert {file.name for file in SOURCE.rglob("*.py") if module in imports(file)} == by
