"""Tests that change the machine: `python -m tools.machine` gives them one of their own."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tools.machine.__main__ import INSIDE

OPT = Path("/opt/weir")
SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = f"""#!{OPT}/bin/python
import sys
from weir.cli.main import main
sys.exit(main())
"""


@pytest.fixture(scope="session", autouse=True)
def weir() -> Path:
    """Return the directory of a Weir that root has installed for everyone."""
    if os.environ.get(INSIDE) != "1":
        pytest.skip("changes the machine: run it with python -m tools.machine")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = Path("/usr/bin", version)
    if not python.exists():
        pytest.skip(f"there is no {python}, which everyone can run")
    subprocess.run([python, "-m", "venv", "--without-pip", OPT], check=True)
    found = []
    for name, path in (("source", SOURCE), ("packages", Path(sysconfig.get_paths()["purelib"]))):
        (OPT / name).mkdir()
        subprocess.run(["mount", "--bind", path, OPT / name], check=True)
        found.append(f"{OPT / name}\n")
    (OPT / "lib" / version / "site-packages" / "weir.pth").write_text("".join(found))
    program = OPT / "bin" / "weir"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return OPT
