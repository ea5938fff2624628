"""Run one command as root on a machine of its own, whose files are those of this machine.

    python -m tools.machine [--memory 3G] COMMAND...      ends with the exit code of the command

The machine has systemd, version 2 of control groups alone, one processor and no network. It sees every file
of this machine and changes none. It needs root, and Debian's package user-mode-linux, which apt-get
fetches and nothing installs.
"""

import argparse
import hashlib
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tools.controlplane.binaries import cache, made_once
from tools.debian_packages import NoPackages, unpack

_PACKAGE = "user-mode-linux"
_INIT = Path(__file__).with_name("init.sh")
_SYSTEMD = Path("/lib/systemd/systemd")
_BEGINS, _ENDED = "weir-machine-begins", "weir-machine-ended:"
"""Line before the output of the command, and the beginning of the line after it, which has the exit code."""
_BOOT_LINES = 20
"""Number of lines of the boot that are shown if it fails."""
INSIDE = "WEIR_MACHINE"
"""Variable of the commands that run on such a machine."""


class NoMachine(Exception):
    """No machine can be had; the sentence says why."""


def kernel() -> Path:
    """Return the directory of the unpacked kernel and its modules.

    Raises:
        NoMachine: it can't be had.
    """
    key = hashlib.sha256(f"{platform.machine()} {_PACKAGE}".encode()).hexdigest()[:12]
    directory = cache().with_name("machine") / key
    made_once(directory, lambda: os.access(directory / "usr/bin/linux.uml", os.X_OK), _get)
    return directory


def _get(made: Path) -> None:
    with tempfile.TemporaryDirectory(dir=made.parent) as above:
        try:
            unpack([_PACKAGE], Path(above)).rename(made)
        except NoPackages as lacks:
            raise NoMachine(str(lacks)) from None


def run(command: Sequence[str], memory: str = "3G") -> int:
    """Run a command in this directory on a machine of its own, show its output, and return its exit code.

    Raises:
        NoMachine: there is none, or it ended before the command.
    """
    if os.geteuid() != 0:
        raise NoMachine("Only root can read every file of this machine: run it with sudo.")
    if not _SYSTEMD.exists():
        raise NoMachine(f"There is no {_SYSTEMD}: install the package systemd.")
    directory = kernel()
    with tempfile.TemporaryDirectory(prefix="weir-machine-") as place:
        job = Path(place, "job")
        job.write_text(_job(command))
        words = [
            *(
                str(directory / "usr/bin/linux.uml"),
                f"mem={memory}",
                "quiet",
                "rootfstype=hostfs",
                "rootflags=/",
            ),
            *("ro", f"init={_INIT}", f"WEIR_JOB={job}", f"WEIR_MODULES={directory / 'usr/lib/uml/modules'}"),
            *("con=null", "con0=fd:0,fd:1"),
        ]
        return _follow(words, {"PATH": os.environ["PATH"], "HOME": place})


def _job(command: Sequence[str]) -> str:
    lines = [
        f"export HOME=/root LANG=C.UTF-8 PATH={shlex.quote(os.environ['PATH'])} {INSIDE}=1",
        f"echo {_BEGINS}",
        f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(command)}",
        f'echo "{_ENDED}$?"',
    ]
    return "\n".join(lines) + "\n"


def _follow(words: Sequence[str], environment: dict[str, str]) -> int:
    """Show the output of the command, and return its exit code."""
    machine = subprocess.Popen(  # noqa: S603 - the kernel, with paths of ours
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    assert machine.stdout is not None
    boot: list[str] = []
    begun = False
    try:
        for line in map(str.rstrip, machine.stdout):
            if line.startswith(_ENDED):
                return int(line.removeprefix(_ENDED))
            if begun:
                print(line, flush=True)
            else:
                begun = line == _BEGINS
                boot.append(line)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()
    raise NoMachine("\n".join([*boot[-_BOOT_LINES:], "The machine ended before the command did."]))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memory", default="3G")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        return run(options.command, options.memory)
    except NoMachine as lacks:
        print(lacks, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
