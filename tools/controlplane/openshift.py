"""Kinds of OpenShift that a control plane doesn't have: their definitions, from the Go module of its API.

    python -m tools.controlplane.openshift     fetch them if need be, and say where they are

Nothing is built, and the admission of OpenShift's API server isn't run. Without Go, or without the module,
the tests that need the definitions are left out, unless CI=true or WEIR_OPENSHIFT=required;
WEIR_OPENSHIFT=skip leaves them out in any case.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import yaml
from tools.controlplane.api import ApiError, Object
from tools.controlplane.binaries import TOOLS, NoBinaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane

CONSTRAINTS = "/apis/security.openshift.io/v1/securitycontextconstraints"
_MODULE = "github.com/openshift/api"
_DEFINITION = "payload-manifests/crds/0000_03_config-operator_01_securitycontextconstraints.crd.yaml"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def is_skipped() -> bool:
    """Return True if the tests are left out on purpose."""
    return "skip" in (os.environ.get("WEIR_OPENSHIFT"), os.environ.get("WEIR_KUBERNETES"))


def must_run() -> bool:
    """Return True if tests that can't run are a failure rather than left out."""
    is_ci = os.environ.get("CI", "").lower() in {"1", "true"}
    return os.environ.get("WEIR_OPENSHIFT") == "required" or (is_ci and not is_skipped())


def find() -> Path:
    """Return the file that defines security context constraints, fetched now if need be.

    Raises:
        NoBinaries: it can't be fetched; the sentence says why.
    """
    go = shutil.which("go")
    if go is None:
        raise NoBinaries("There is no Go to fetch OpenShift's definitions with; install it (go.dev/dl).")
    done = subprocess.run(
        [go, "mod", "download", "-json", _MODULE],
        cwd=TOOLS / "openshift",
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise NoBinaries(f"Go can't fetch {_MODULE}: {(done.stderr or done.stdout).strip()}")
    return Path(json.loads(done.stdout)["Dir"], _DEFINITION)


def serve_constraints(plane: ControlPlane, definition: Path) -> None:
    """Have the API server take security context constraints, which it then stores and doesn't enforce."""
    made: Object = yaml.load(definition.read_text(), yaml.CSafeLoader)
    plane.api.apply(made)
    Cluster(plane).until(lambda: _is_served(plane), "the kind of security context constraints")


def withdraw_constraints(plane: ControlPlane) -> None:
    """Have the API server be without that kind again."""
    plane.api.delete(f"{_DEFINITIONS}/securitycontextconstraints.security.openshift.io")
    Cluster(plane).until(lambda: not _is_served(plane), "the kind of security context constraints to go")


def _is_served(plane: ControlPlane) -> bool:
    with suppress(ApiError):
        plane.api.items(CONSTRAINTS)
        return True
    return False


def main() -> int:
    """Run from the command line, before the tests."""
    if is_skipped():
        return 0
    try:
        print(find())
    except NoBinaries as lacks:
        print(f"The tests with OpenShift's kinds are left out. {lacks}", file=sys.stderr)
        return 1 if must_run() else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
