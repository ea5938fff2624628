"""An interpreter that every user of this machine can run: that of the tests may lie below /root."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def open_python(directory: Path) -> str | None:
    """Return an interpreter with Weir for every user, made in a directory; None if there is none."""
    packages = Path(sysconfig.get_paths()["purelib"])
    if not all(_is_open(path) for path in (SOURCE, packages, directory)):
        return None
    if _is_open(Path(sys.executable).resolve()):
        return sys.executable
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(f"/usr/bin/python{version}")
    if not base.exists():
        return None
    subprocess.run([base, "-m", "venv", "--without-pip", directory / "python"], check=True)
    found = directory / "python" / "lib" / f"python{version}" / "site-packages"
    pinned = [
        line for path in packages.glob("*.pth") for line in path.read_text().splitlines() if line[:1] == "/"
    ]
    (found / "weir.pth").write_text("\n".join([str(SOURCE), str(packages), *pinned]) + "\n")
    return str(directory / "python" / "bin" / "python")


def _is_open(path: Path) -> bool:
    """Return True if every user can enter a directory, or run a file."""
    return all(each.stat().st_mode & 0o1 for each in (path, *path.parents) if each.exists()) and os.access(
        path, os.R_OK
    )
