"""The validators of OLM for bundles and catalogues, built once from the Go module in `tools/olm`.

    python -m tools.olm_validator     build them if need be, and say where they are

They are the code of `operator-sdk bundle validate` and `opm validate`. After a control plane they take a
minute of processor time, because the module has the same versions of Kubernetes' libraries. Without Go, the
tests that need them are left out, unless CI=true or WEIR_OLM=required; WEIR_OLM=skip leaves them out in any
case.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tools.controlplane.binaries import (
    TOOLS,
    NoBinaries,
    Program,
    build_one,
    cache,
    go_version,
    made_once,
)

_PROGRAM = Program("olmcheck", "olm", "weir.dev/tools/olm", 0.5)
_PARTS = ("go.mod", "go.sum", "main.go")


def is_skipped() -> bool:
    """Return True if the tests are left out on purpose."""
    return os.environ.get("WEIR_OLM") == "skip"


def must_run() -> bool:
    """Return True if tests that can't run are a failure rather than left out."""
    is_ci = os.environ.get("CI", "").lower() in {"1", "true"}
    return os.environ.get("WEIR_OLM") == "required" or (is_ci and not is_skipped())


def find() -> Path:
    """Return the program, built now if need be.

    Raises:
        NoBinaries: it can't be built; the sentence says why.
    """
    go = shutil.which("go")
    if go is None:
        raise NoBinaries("There is no Go to build the validators of OLM with; install it (go.dev/dl).")
    directory = cache().with_name("olm") / _key(go_version(go))
    program = directory / _PROGRAM.name

    def make(made: Path) -> None:
        print(f"Building the validators of OLM, once; kept in {directory}.", file=sys.stderr, flush=True)
        build_one(go, _PROGRAM, made)

    made_once(directory, lambda: os.access(program, os.X_OK), make)
    return program


def _key(version: str) -> str:
    """Return a name for what the program is made of, in twelve letters."""
    hashed = hashlib.sha256(version.encode())
    for file in _PARTS:
        hashed.update((TOOLS / _PROGRAM.module / file).read_bytes())
    return hashed.hexdigest()[:12]


def main() -> int:
    """Run from the command line, before the tests, so that the building is seen."""
    if is_skipped():
        return 0
    try:
        print(find())
    except NoBinaries as lacks:
        print(f"The tests with the validators of OLM are left out. {lacks}", file=sys.stderr)
        return 1 if must_run() else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
