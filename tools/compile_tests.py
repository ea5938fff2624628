"""Compile all modules that the tests need, once, before the processes of a run import them.

Every process of a run imports all test modules. In a fresh checkout each would compile all of them, and
rewrite their assertions, at the same time as the others. Here each core does a share, once.
"""

import compileall
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, get_cache_dir

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src/weir", "tests", "tools", "bench")
_UNTRACED: Any = SimpleNamespace(trace=lambda _: None)
_NO_CONFIG: Any = None


def is_rewritten(file: Path) -> bool:
    """Return True if pytest rewrites the assertions of a module."""
    return file.name == "conftest.py" or (file.name.startswith("test_") and "tests" in file.parts)


def compile_module(file: Path) -> None:
    """Write the compiled module where the interpreter or pytest looks for it, unless it is there."""
    if not is_rewritten(file):
        compileall.compile_file(file, quiet=2)
        return
    folder = get_cache_dir(file)
    folder.mkdir(parents=True, exist_ok=True)
    compiled = folder / (file.name[:-3] + PYC_TAIL)
    if _read_pyc(file, compiled) is None:
        source, code = _rewrite_test(file, _NO_CONFIG)
        _write_pyc(_UNTRACED, code, source, compiled)


def main() -> int:
    """Compile the modules of all folders."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    with ProcessPoolExecutor() as processes:
        list(processes.map(compile_module, files, chunksize=20))
    return 0


if __name__ == "__main__":
    sys.exit(main())
