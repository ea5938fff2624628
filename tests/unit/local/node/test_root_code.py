"""The code that runs as root: little of it, and nothing but the standard library under it."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import weir.local
from weir.local.node import __main__ as node_process

NODE = Path(node_process.__file__).parent
AS_USERS = {"gpu_files.py", "personal.py"}
"""Files of the package that run once the rights of root are given up, in the server, or in a personal pool alone."""
LINES_MAX = 1000
LOADS = (
    "import json, sys; before = set(sys.modules); sys.path.append(sys.argv[1]); "
    "import weir.local.node.shared; print(json.dumps(sorted(set(sys.modules) - before)))"
)


def lines_of_code(path: Path) -> int:
    """Return the number of lines that aren't blank, comments or docstrings."""
    text = path.read_text("utf-8")
    texts = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    numbered = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and at not in texts for at, line in numbered)


def test_little_code_runs_as_root() -> None:
    files = [path for path in NODE.glob("*.py") if path.name not in AS_USERS]
    files.append(Path(weir.local.__path__[0]) / "cgroups.py")
    assert sum(map(lines_of_code, files)) <= LINES_MAX


def test_the_node_process_loads_the_standard_library_alone() -> None:
    source = str(NODE.parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADS, source], capture_output=True, text=True, check=True
    )
    loaded = {name for name in json.loads(done.stdout) if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name.split(".")[0] for name in loaded} == {"weir"}
    assert all(
        name in ("weir", "weir.local", "weir.model", "weir.model.plain_text", "weir.version")
        or name.startswith("weir.local.")
        for name in loaded
    ), loaded
    assert not any(name.startswith("weir.local.server") for name in loaded), loaded
