"""Programs of Slurm, from Debian's packages.

    python -m tools.slurm.programs     get them if need be, and say where they are

apt-get fetches and verifies the packages. They are unpacked into the cache, not installed, so the machine
stays as it is.
"""

import hashlib
import os
import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.binaries import cache, made_once
from tools.debian_packages import NoPackages, unpack

_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "libhwloc15")
_DAEMONS = ("slurmctld", "slurmd", "slurmstepd")
SETTING = "WEIR_SLURM"
"""Variable: `skip` leaves the tests with Slurm out, `required` makes a skip a failure."""


class NoSlurm(Exception):
    """Slurm can't be had; the sentence says why."""


@dataclass(frozen=True, slots=True)
class SlurmPrograms:
    """Root of the unpacked packages."""

    root: Path

    def __getitem__(self, name: str) -> str:
        below = "usr/sbin" if name in _DAEMONS else "usr/bin"
        return str(self.root / below / name)

    @property
    def commands(self) -> Path:
        """Return the directory of sbatch, srun and scontrol."""
        return self.root / "usr/bin"

    @property
    def plugins(self) -> Path:
        """Return the directory of the plugins and of the shared library."""
        directories = sorted(self.root.glob("usr/lib/*/slurm-wlm"))
        return directories[0] if directories else self.root

    def environment(self) -> dict[str, str]:
        """Return the variables by which the programs find their libraries."""
        libraries = self.plugins
        return {"LD_LIBRARY_PATH": f"{libraries.parent}:{libraries}"}

    def are_complete(self) -> bool:
        """Return True if none is missing."""
        names = (*_DAEMONS, "sbatch", "srun", "scontrol", "scancel")
        return self.plugins != self.root and all(os.access(self[name], os.X_OK) for name in names)


def find() -> SlurmPrograms:
    """Return the programs, got now if they aren't in the cache.

    Raises:
        NoSlurm: they can't be had.
    """
    programs = SlurmPrograms(_directory())
    made_once(programs.root, programs.are_complete, _get)
    return programs


def _directory() -> Path:
    key = hashlib.sha256(f"{platform.machine()} {_PACKAGES}".encode()).hexdigest()[:12]
    return cache().with_name("slurm") / key


def _get(made: Path) -> None:
    """Put all programs into a directory."""
    with tempfile.TemporaryDirectory(dir=made.parent) as above:
        try:
            root = unpack(_PACKAGES, Path(above))
        except NoPackages as lacks:
            raise NoSlurm(str(lacks)) from None
        for name in _DAEMONS:  # a daemon reads the GPUs of its configuration under this name only
            (root / "usr/sbin" / name).symlink_to(f"{name}-wlm")
        if not SlurmPrograms(root).are_complete():
            raise NoSlurm(f"The packages {', '.join(_PACKAGES)} lack a program of Slurm.")
        root.rename(made)


def main() -> int:
    """Run from the command line, before the tests."""
    try:
        print(find().root)
    except NoSlurm as lacks:
        print(f"The tests with Slurm are left out. {lacks}", file=sys.stderr)
        return 1 if os.environ.get(SETTING) == "required" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
