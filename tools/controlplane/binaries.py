"""The programs of a control plane: those at hand, or built once from the modules beside this package.

    python -m tools.controlplane.binaries     build them if need be, and say where they are

They are looked for in $KUBEBUILDER_ASSETS if it is set; otherwise they lie in a cache outside the work
tree, in a directory named after the pins of the modules and the version of Go, so that a changed pin
builds anew. Several processes may ask at once: one builds, the others wait for it.

Without them the tests that need them are left out, unless CI=true or WEIR_KUBERNETES=required;
WEIR_KUBERNETES=skip leaves them out in any case.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
VERSION = "v1.36.3"
"""Of Kubernetes: what go.mod pins; the programs have to be told."""
_STRIPPED = "-s -w"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Program:
    """One of the programs, and what it is built from."""

    name: str
    module: str  # directory under tools/
    package: str
    minutes: float  # measured on two cores with nothing cached


PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", 1.0),
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 4.5),
    Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", 1.2),
    Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", 0.5),
    Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", 0.1),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", 1.6),
    Program("helm", "helm", "helm.sh/helm/v4/cmd/helm", 1.5),
)


class NoBinaries(Exception):
    """The programs aren't there and can't be built; the sentence says what to do about it."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where the programs are."""

    directory: Path

    def __getitem__(self, name: str) -> str:
        return str(self.directory / name)

    def lacks(self) -> list[str]:
        """Names of those that aren't there."""
        return [one.name for one in PROGRAMS if not os.access(self.directory / one.name, os.X_OK)]


def _told(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def find(say: Callable[[str], None] = _told) -> Binaries:
    """The programs, built now if that has to be.

    Raises:
        NoBinaries: they aren't there, and there is no Go to build them with, or it failed.
    """
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if named:
        return _named(Path(named))
    go = shutil.which("go")
    if go is None:
        raise NoBinaries(
            "No control plane to test against: install Go (go.dev/dl) and it is built once, or set "
            f"KUBEBUILDER_ASSETS to a directory with {', '.join(one.name for one in PROGRAMS)}."
        )
    there = Binaries(cache() / key(go_version(go)))
    if there.lacks():
        with one_at_a_time(there.directory):
            if there.lacks():
                build(go, there.directory, say)
    return there


def at_hand() -> bool:
    """Whether `find` has nothing to build."""
    try:
        if os.environ.get("KUBEBUILDER_ASSETS"):
            return bool(find())
        go = shutil.which("go")
        return go is not None and not Binaries(cache() / key(go_version(go))).lacks()
    except NoBinaries:
        return False


def cache() -> Path:
    """Where built programs are kept."""
    above = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(above) / "weir" / "kubernetes"


def key(go_version: str) -> str:
    """What the programs are made of, in twelve letters."""
    hashed = hashlib.sha256(f"{go_version} {VERSION}".encode())
    for module in sorted({one.module for one in PROGRAMS}):
        for name in ("go.mod", "go.sum"):
            hashed.update((TOOLS / module / name).read_bytes())
    return hashed.hexdigest()[:12]


def _named(directory: Path) -> Binaries:
    found = Binaries(directory)
    lacks = found.lacks()
    if lacks:
        raise NoBinaries(
            f"KUBEBUILDER_ASSETS is {directory}, where there is no {' and no '.join(lacks)}: add them, or "
            "unset it to have all of them built."
        )
    return found


def go_version(go: str) -> str:
    """Return the version that this Go states, such as go1.26.0.

    Raises:
        NoBinaries: it states none.
    """
    asked = subprocess.run(
        [go, "env", "GOVERSION"], check=False, capture_output=True, text=True, env=_environment()
    )
    if asked.returncode != 0:
        raise NoBinaries(f"{go} doesn't say which version it is ({asked.stderr.strip()}): mend or remove it.")
    return asked.stdout.strip()


def _environment() -> dict[str, str]:
    """Static programs of exactly what the modules pin, with the Go that is there."""
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Keep other processes from building the same directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(go: str, directory: Path, say: Callable[[str], None] = _told) -> None:
    """Make all programs and put them there in one move.

    Raises:
        NoBinaries: Go failed; what it said is in the sentence.
    """
    minutes = sum(one.minutes for one in PROGRAMS)
    say(
        f"Building Kubernetes {VERSION} to test against, once: {', '.join(one.name for one in PROGRAMS)}. "
        f"About {minutes:.0f} minutes on two cores, and it fetches their sources; kept in {directory}."
    )
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="building-", dir=directory.parent))
    try:
        for program in PROGRAMS:
            began = time.monotonic()
            build_one(go, program, made)
            say(f"  {program.name} in {time.monotonic() - began:.0f} s")
        shutil.rmtree(directory, ignore_errors=True)
        made.chmod(0o755)
        made.rename(directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def build_one(go: str, program: Program, into: Path) -> None:
    """Build one program into a directory.

    Raises:
        NoBinaries: Go failed; its last words are in the sentence.
    """
    flags = _STRIPPED
    if program.module in ("kubernetes", "kubelet"):
        major, minor, _ = VERSION.removeprefix("v").split(".")
        reported = {"gitVersion": VERSION, "gitMajor": major, "gitMinor": minor}
        flags = " ".join(
            [
                flags,
                *(
                    f"-X {place}.{name}={value}"
                    for place in _VERSION_PACKAGES
                    for name, value in reported.items()
                ),
            ]
        )
    command = [go, "build", "-trimpath", "-ldflags", flags, "-o", str(into / program.name), program.package]
    done = subprocess.run(
        command, cwd=TOOLS / program.module, env=_environment(), check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        answer = done.stderr.strip().splitlines()[-8:]
        raise NoBinaries(
            "\n".join([f"{program.name} couldn't be built from tools/{program.module}:", *answer])
        )


def must_run() -> bool:
    """Whether tests without a control plane are a failure rather than left out."""
    answer = os.environ.get("WEIR_KUBERNETES")
    return answer == "required" or (answer != "skip" and os.environ.get("CI", "").lower() in {"1", "true"})


def main() -> int:
    """Run from the command line, before the tests, so that the building is seen."""
    if os.environ.get("WEIR_KUBERNETES") == "skip":
        return 0
    try:
        print(find().directory)
    except NoBinaries as why:
        print(why, file=sys.stderr)
        return 1 if must_run() else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
