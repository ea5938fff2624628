"""Debian packages, unpacked without being installed: apt-get fetches and verifies them."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class NoPackages(Exception):
    """Packages can't be had; the sentence says why."""


def unpack(names: Sequence[str], above: Path) -> Path:
    """Unpack packages below a directory, and return the root of their files.

    A package list of our own is used if that of the machine is missing or too old.

    Raises:
        NoPackages: apt-get can't fetch them.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NoPackages(f"There is no apt-get to fetch {', '.join(names)} with.")
    packages, unpacked = above / "packages", above / "unpacked"
    packages.mkdir()
    lists, state = above / "lists", above / "state"
    own = [f"-oDir::State::lists={lists}", f"-oDir::Cache={state}"]
    (lists / "partial").mkdir(parents=True)
    (state / "archives" / "partial").mkdir(parents=True)
    if _apt(packages, "download", *names):
        answer = _apt(packages, *own, "update") or _apt(packages, *own, "download", *names)
        if answer:
            raise NoPackages(f"apt-get can't fetch {', '.join(names)}: {answer}")
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(unpacked)], check=True)
    return unpacked


def _apt(where: Path, *words: str) -> str:
    """Run apt-get; return its last words if it failed."""
    done = subprocess.run(
        ["apt-get", "-oAPT::Sandbox::User=root", *words],
        cwd=where,
        check=False,
        capture_output=True,
        text=True,
    )
    return "" if done.returncode == 0 else done.stderr.strip()[-500:] or f"exit code {done.returncode}"
