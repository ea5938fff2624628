"""The programs of a node: a kubelet, plugins with fake GPUs and a container runtime, built once.

    python -m tools.node.programs     get them if need be, and say where they are

The kubelet is built from the Go module in `tools/kubelet`, in about 45 s of processor time after a control
plane, else in 5 minutes. containerd is built from `tools/containerd`, because Debian's knows no CDI devices.
runc and busybox are Debian packages. apt-get fetches and verifies them, and they are unpacked into the cache,
not installed, so the machine stays as it is. Without apt-get, the programs on the PATH are used.
"""

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.binaries import (
    TOOLS,
    VERSION,
    NoBinaries,
    Program,
    build_one,
    cache,
    go_version,
    made_once,
)
from tools.debian_packages import NoPackages, unpack
from tools.node.machine import is_skipped, must_run, obstacle

_RUNTIME = "github.com/containerd/containerd/cmd"
_BUILT = (
    Program("kubelet", "kubelet", "k8s.io/kubernetes/cmd/kubelet", 1.0),
    Program("gpuplugin", "kubelet", "weir.dev/tools/kubelet/gpuplugin", 0.1),
    Program("draplugin", "kubelet", "weir.dev/tools/kubelet/draplugin", 0.1),
    Program("containerd", "containerd", f"{_RUNTIME}/containerd", 1.0),
    Program("containerd-shim-runc-v2", "containerd", f"{_RUNTIME}/containerd-shim-runc-v2", 0.1),
    Program("ctr", "containerd", f"{_RUNTIME}/ctr", 0.1),
)
_PARTS = {
    "kubelet": ("go.mod", "go.sum", "gpuplugin/main.go", "draplugin/main.go"),
    "containerd": ("go.mod", "go.sum"),
}
"""Files that the programs are made of, by module."""
_PACKAGES = ("runc", "busybox-static")
_FROM_PACKAGES = ("runc", "busybox")
_PLACES = ("usr/bin", "usr/sbin", "bin", "sbin")


@dataclass(frozen=True, slots=True)
class Programs:
    """A directory with all programs of a node."""

    directory: Path

    def __getitem__(self, name: str) -> str:
        return str(self.directory / name)

    def are_complete(self) -> bool:
        """Return True if none is missing."""
        names = (*(one.name for one in _BUILT), *_FROM_PACKAGES)
        return all(os.access(self.directory / name, os.X_OK) for name in names)


def find() -> Programs:
    """Return the programs, got now if they aren't in the cache.

    Raises:
        NoBinaries: one can't be had; the sentence says why.
    """
    go = shutil.which("go")
    if go is None:
        raise NoBinaries("There is no Go to build a kubelet with; install it (go.dev/dl).")
    programs = Programs(cache().with_name("node") / _key(go_version(go)))
    made_once(programs.directory, programs.are_complete, lambda made: _get(go, made))
    return programs


def are_at_hand() -> bool:
    """Return True if `find` has nothing to build."""
    go = shutil.which("go")
    return go is not None and Programs(cache().with_name("node") / _key(go_version(go))).are_complete()


def _key(version: str) -> str:
    """Return a name for what the programs are made of, in twelve letters."""
    hashed = hashlib.sha256(f"{version} {VERSION} {platform.machine()} {_PACKAGES}".encode())
    for module, files in _PARTS.items():
        for file in files:
            hashed.update((TOOLS / module / file).read_bytes())
    return hashed.hexdigest()[:12]


def _get(go: str, made: Path) -> None:
    """Put all programs into a directory."""
    print(f"Getting a kubelet and a container runtime, once; kept in {cache()}.", file=sys.stderr, flush=True)
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        with tempfile.TemporaryDirectory() as above:
            _unpack(Path(above), made)
    else:
        _link(made)
    for program in _BUILT:
        build_one(go, program, made)


def _link(made: Path) -> None:
    for name in _FROM_PACKAGES:
        program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if program is None:
            raise NoBinaries(f"There is no {name}; install {', '.join(_PACKAGES)}.")
        (made / name).symlink_to(program)


def _unpack(above: Path, made: Path) -> None:
    """Take the programs out of the packages."""
    try:
        unpacked = unpack(_PACKAGES, above)
    except NoPackages as lacks:
        raise NoBinaries(str(lacks)) from None
    for name in _FROM_PACKAGES:
        files = [one for place in _PLACES if (one := unpacked / place / name).exists()]
        if not files:
            raise NoBinaries(f"The packages {', '.join(_PACKAGES)} have no {name}.")
        shutil.copy2(files[0], made / name)


def main() -> int:
    """Run from the command line, before the tests, so that the building is seen."""
    if is_skipped():
        return 0
    why = obstacle()
    if not why:
        try:
            print(find().directory)
        except NoBinaries as lacks:
            why = str(lacks)
    if why:
        print(f"The tests on a real node are left out. {why}", file=sys.stderr)
    return 1 if why and must_run() else 0


if __name__ == "__main__":
    sys.exit(main())
