"""Everything a job may put in place of a file."""

import os
import random
import shutil
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

HUGE_NOTE = b'{"kind":"report","at_s":1,"values":{"x":' + b"9" * 400 + b"}}\n"
SAVED_NOTE = b'{"kind":"checkpointed","at_s":1e300}\n{"kind":"checkpointed","at_s":-5}\n'
TERABYTE = 1 << 40


def away(path: Path) -> None:
    """Make place for something else."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def bound(path: Path) -> None:
    place = os.open(path.parent, os.O_PATH)  # names of sockets are short
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(f"/proc/self/fd/{place}/{path.name}")
    os.close(place)


def sparse(path: Path) -> None:
    path.touch()
    with suppress(OSError):  # where so large a file can't be
        os.truncate(path, TERABYTE)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except OSError:
        path.symlink_to("/dev/zero")  # only root makes devices


def closed(path: Path) -> None:
    path.write_bytes(HUGE_NOTE)
    path.chmod(0)


def full_directory(path: Path) -> None:
    path.mkdir()
    (path / "x").write_text("x")


FILES: dict[str, Callable[[Path], object]] = {
    "a note with a huge number": lambda path: path.write_bytes(HUGE_NOTE),
    "notes of other times": lambda path: path.write_bytes(SAVED_NOTE),
    "no text": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "deep nesting": lambda path: path.write_bytes(b"[" * 100_000 + b"\n"),
    "a line without end": lambda path: path.write_bytes(b"{" * 3_000_000),
    "an end": lambda path: path.write_bytes(b'{"at_s":1e308,"code":0}\n'),
    "a FIFO": os.mkfifo,
    "a link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("/no/such/file"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to a directory": lambda path: path.symlink_to("/proc"),
    "a directory": full_directory,
    "a socket": bound,
    "a device": device,
    "a terabyte": sparse,
    "a closed file": closed,
    "nothing": lambda path: None,
}
"""In place of a file, or of the whole directory."""


def random_file(path: Path, chance: random.Random) -> None:
    """Something at a path, or random bytes."""
    away(path)
    if chance.random() < 0.3:
        path.write_bytes(chance.randbytes(chance.randrange(5000)))
    else:
        chance.choice(list(FILES.values()))(path)
