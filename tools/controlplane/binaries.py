"""The programs of a control plane: those at hand, or built once from the modules beside this package.

    python -m tools.controlplane.binaries     build them if need be, and say where they are

WEIR_KUBERNETES_VERSION=1.31, 1.34, 1.35 or 1.37 has the API server, its controllers and its scheduler
of that release in place of the usual ones; the other programs stay.

They are looked for in $KUBEBUILDER_ASSETS if it is set; otherwise they lie in a cache outside the work
tree, in a directory named after the pins of the modules and the version of Go, so that a changed pin
means a new build. Several processes may ask at once: one builds, the others wait for it.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
VERSION = "v1.36.3"
"""Release of Kubernetes that go.mod pins. The programs must be given it."""
RELEASE = "1.36"
"""Release of that version."""
OTHER_VERSIONS = {
    "1.31": "v1.31.13",
    "1.34": "v1.34.12",
    "1.35": "v1.35.4",
    "1.37": "v1.37.2",
}
"""Other releases that the tests can run on, each pinned by a module of its own."""
_STRIPPED = "-s -w"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Program:
    """Program of the control plane, and the module that it is built from."""

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


_OTHERS_ALSO = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""Programs that another release has of its own."""


class NoBinaries(Exception):
    """The programs aren't there and can't be built; the sentence says what to do about it."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the built programs."""

    directory: Path
    release: str = RELEASE

    def __getitem__(self, name: str) -> str:
        return str(self.directory / name)

    def lacks(self) -> list[str]:
        """Names of those that aren't there."""
        return [one.name for one in PROGRAMS if not os.access(self.directory / one.name, os.X_OK)]


def _told(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def find(say: Callable[[str], None] = _told) -> Binaries:
    """Return the programs, and build the missing ones first.

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
    binaries = _cached(go, RELEASE)
    made_once(binaries.directory, lambda: not binaries.lacks(), lambda made: build(go, made, PROGRAMS, say))
    release = chosen_release()
    return binaries if release == RELEASE else _other(go, binaries, release, say)


def _other(go: str, usual: Binaries, release: str, say: Callable[[str], None]) -> Binaries:
    """Return the programs of another release, and links to those that every release shares."""
    binaries = _cached(go, release)

    def make(made: Path) -> None:
        build(go, made, _programs(release), say, OTHER_VERSIONS[release])
        for name in Binaries(made, release).lacks():
            (made / name).symlink_to(usual[name])

    made_once(binaries.directory, lambda: not binaries.lacks(), make)
    return binaries


def chosen_release() -> str:
    """Return the release to test against.

    Raises:
        NoBinaries: it is none that can be built.
    """
    release = os.environ.get("WEIR_KUBERNETES_VERSION") or RELEASE
    if release != RELEASE and release not in OTHER_VERSIONS:
        allowed = ", ".join(sorted({RELEASE, *OTHER_VERSIONS}))
        raise NoBinaries(f"WEIR_KUBERNETES_VERSION is {release}: write one of {allowed}.")
    return release


def _programs(release: str) -> tuple[Program, ...]:
    """Return the programs that are built for a release."""
    if release == RELEASE:
        return PROGRAMS
    own = [one for one in PROGRAMS if one.name in _OTHERS_ALSO]
    return tuple(replace(one, module=f"{one.module}-{release}") for one in own)


def _cached(go: str, release: str) -> Binaries:
    version = VERSION if release == RELEASE else OTHER_VERSIONS[release]
    return Binaries(cache() / key(go_version(go), version, _programs(release)), release)


def at_hand() -> bool:
    """Return True if `find` has nothing to build."""
    try:
        if os.environ.get("KUBEBUILDER_ASSETS"):
            return bool(find())
        go = shutil.which("go")
        return go is not None and not any(
            _cached(go, release).lacks() for release in {RELEASE, chosen_release()}
        )
    except NoBinaries:
        return False


def cache() -> Path:
    """Return the directory of built programs."""
    above = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(above) / "weir" / "kubernetes"


def key(go_version: str, version: str = VERSION, programs: Sequence[Program] = PROGRAMS) -> str:
    """Return a hash of the sources and settings of the programs, in twelve letters."""
    hashed = hashlib.sha256(f"{go_version} {version}".encode())
    for module in sorted({one.module for one in programs}):
        for name in ("go.mod", "go.sum"):
            hashed.update((TOOLS / module / name).read_bytes())
    return hashed.hexdigest()[:12]


def _named(directory: Path) -> Binaries:
    binaries = Binaries(directory, chosen_release())
    lacks = binaries.lacks()
    if lacks:
        raise NoBinaries(
            f"KUBEBUILDER_ASSETS is {directory}, where there is no {' and no '.join(lacks)}: add them, or "
            "unset it to have all of them built."
        )
    return binaries


def go_version(go: str) -> str:
    """Return the version that this Go states, such as go1.26.0.

    Raises:
        NoBinaries: it states none.
    """
    asked = subprocess.run(
        [go, "env", "GOVERSION"], check=False, capture_output=True, text=True, env=_environment()
    )
    if asked.returncode != 0:
        raise NoBinaries(f"{go} doesn't print its version ({asked.stderr.strip()}): fix or remove it.")
    return asked.stdout.strip()


def _environment() -> dict[str, str]:
    """Return an environment that builds static programs of the pinned modules with the installed Go."""
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Keep other processes from building the same directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(directory: Path, is_complete: Callable[[], bool], make: Callable[[Path], None]) -> None:
    """Have one process make a directory of the cache that isn't complete, and put it there in one move."""
    if is_complete():
        return
    with one_at_a_time(directory):
        if is_complete():
            return
        made = Path(tempfile.mkdtemp(prefix="building-", dir=directory.parent))
        try:
            make(made)
            shutil.rmtree(directory, ignore_errors=True)
            made.chmod(0o755)
            made.rename(directory)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def build(
    go: str, into: Path, programs: Sequence[Program], say: Callable[[str], None], version: str = VERSION
) -> None:
    """Build these programs into a directory.

    Raises:
        NoBinaries: Go failed; what it said is in the sentence.
    """
    minutes = sum(one.minutes for one in programs)
    say(
        f"Building Kubernetes {version} to test against, once: {', '.join(one.name for one in programs)}. "
        f"About {minutes:.0f} minutes on two cores, and it fetches their sources; kept in {cache()}."
    )
    for program in programs:
        began = time.monotonic()
        build_one(go, program, into, version)
        say(f"  {program.name} in {time.monotonic() - began:.0f} s")


def build_one(go: str, program: Program, into: Path, version: str = VERSION) -> None:
    """Build one program into a directory.

    Raises:
        NoBinaries: Go failed; its last words are in the sentence.
    """
    flags = _STRIPPED
    if program.module == "kubelet" or program.module.startswith("kubernetes"):
        major, minor, _ = version.removeprefix("v").split(".")
        reported = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
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
    """Return True if tests must fail, and not be skipped, without a control plane."""
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
