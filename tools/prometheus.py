"""Program of Prometheus, from Debian's package.

    python -m tools.prometheus     get it if need be, and say where it is

apt-get fetches and verifies the package. It is unpacked into the cache, not installed, so the machine stays
as it is.
"""

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from tools.controlplane.binaries import cache, made_once
from tools.debian_packages import NoPackages, unpack

SETTING = "WEIR_PROMETHEUS"
"""Variable: `skip` leaves the test with Prometheus out, `required` makes a skip a failure."""


def find() -> str:
    """Return the path of the program, got now if it isn't on the machine.

    Raises:
        NoPackages: it can't be had.
    """
    path = at_hand()
    if path is not None:
        return path
    program = _cached()
    made_once(program.parent, program.exists, _get)
    return str(program)


def at_hand() -> str | None:
    """Return the path of the program if it is on the machine."""
    made = _cached()
    return str(made) if made.exists() else shutil.which("prometheus")


def _cached() -> Path:
    return cache().with_name("prometheus") / platform.machine() / "prometheus"


def _get(made: Path) -> None:
    """Put the program into a directory."""
    with tempfile.TemporaryDirectory(dir=made.parent) as above:
        (unpack(["prometheus"], Path(above)) / "usr/bin/prometheus").rename(made / "prometheus")


def main() -> int:
    """Run from the command line, before the tests."""
    try:
        print(find())
    except NoPackages as lacks:
        print(f"The test with Prometheus is left out. {lacks}", file=sys.stderr)
        return 1 if os.environ.get(SETTING) == "required" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
