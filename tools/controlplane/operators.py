"""Operators of other projects beside a control plane: KubeRay, and Kubeflow's training operator.

    python -m tools.controlplane.operators     build them if need be, and say where they are

They are built once from the Go modules in `tools/kuberay` and `tools/training-operator`, in about six minutes
on two cores, and the definitions of their kinds are taken from the same modules. Without Go, the tests that
need them are left out, unless CI=true or WEIR_OPERATORS=required; WEIR_OPERATORS=skip leaves them out in any
case.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml
from tools.controlplane.api import ApiError, Object
from tools.controlplane.binaries import (
    TOOLS,
    NoBinaries,
    Program,
    build_one,
    cache,
    go_version,
    made_once,
)
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane


@dataclass(frozen=True, slots=True)
class Operator:
    """Program of an operator, and the place of the definitions of its kinds."""

    program: Program
    module: str  # of the definitions
    definitions: str  # folder within it
    arguments: Sequence[str] = ()


KUBERAY = Operator(
    Program("ray-operator", "kuberay", "github.com/ray-project/kuberay/ray-operator", 4.0),
    "github.com/ray-project/kuberay/ray-operator",
    "config/crd/bases",
    ("--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address=0"),
)
TRAINING = Operator(
    Program("training-operator", "training-operator", "weir.dev/tools/training-operator", 1.0),
    "github.com/kubeflow/training-operator",
    "manifests/base/crds",
)
OPERATORS = (KUBERAY, TRAINING)
_PARTS = {"kuberay": ("go.mod", "go.sum"), "training-operator": ("go.mod", "go.sum", "main.go")}
"""Files that the programs are made of, by module."""


def is_skipped() -> bool:
    """Return True if the tests are left out on purpose."""
    return "skip" in (os.environ.get("WEIR_OPERATORS"), os.environ.get("WEIR_KUBERNETES"))


def must_run() -> bool:
    """Return True if tests that can't run are a failure rather than left out."""
    is_ci = os.environ.get("CI", "").lower() in {"1", "true"}
    return os.environ.get("WEIR_OPERATORS") == "required" or (is_ci and not is_skipped())


def find() -> Path:
    """Return the directory of the programs and of the definitions of their kinds, made now if need be.

    Raises:
        NoBinaries: it can't be made; the sentence says why.
    """
    go = shutil.which("go")
    if go is None:
        raise NoBinaries("There is no Go to build operators with; install it (go.dev/dl).")
    directory = cache().with_name("operators") / _key(go_version(go))

    def is_complete() -> bool:
        return all(os.access(directory / operator.program.name, os.X_OK) for operator in OPERATORS)

    def make(made: Path) -> None:
        print(f"Building operators to test beside, once; kept in {directory}.", file=sys.stderr, flush=True)
        for operator in OPERATORS:
            build_one(go, operator.program, made)
            _copy_definitions(go, operator, made)

    made_once(directory, is_complete, make)
    return directory


def _key(version: str) -> str:
    """Return a name for what the programs are made of, in twelve letters."""
    hashed = hashlib.sha256(version.encode())
    for module, files in _PARTS.items():
        for file in files:
            hashed.update((TOOLS / module / file).read_bytes())
    return hashed.hexdigest()[:12]


def _copy_definitions(go: str, operator: Operator, made: Path) -> None:
    command = [go, "list", "-m", "-f", "{{.Dir}}", operator.module]
    done = subprocess.run(
        command, cwd=TOOLS / operator.program.module, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise NoBinaries(f"Go doesn't say where {operator.module} is: {done.stderr.strip()}")
    files = sorted(Path(done.stdout.strip(), operator.definitions).glob("*_*.yaml"))
    texts = [file.read_text() for file in files]
    (made / f"{operator.program.name}.yaml").write_text("\n---\n".join(texts))


def run(plane: ControlPlane, directory: Path, operator: Operator) -> None:
    """Install the kinds of an operator, and run it until the control plane ends."""
    name = operator.program.name
    read = yaml.load_all((directory / f"{name}.yaml").read_text(), yaml.CSafeLoader)
    kinds: list[Object] = [kind for kind in read if kind]
    plane.api.apply(*kinds)
    Cluster(plane).until(lambda: all(_is_served(plane, kind) for kind in kinds), f"the kinds of {name}")
    command = [str(directory / name), *operator.arguments]
    plane.run_beside(name, command, {"KUBECONFIG": str(plane.kubeconfig)}, is_weir=False)


def _is_served(plane: ControlPlane, definition: Object) -> bool:
    spec = definition["spec"]
    with suppress(ApiError):
        for version in spec["versions"]:
            plane.api.items(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")
        return True
    return False


def main() -> int:
    """Run from the command line, before the tests, so that the building is seen."""
    if is_skipped():
        return 0
    try:
        print(find())
    except NoBinaries as lacks:
        print(f"The tests beside operators are left out. {lacks}", file=sys.stderr)
        return 1 if must_run() else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
