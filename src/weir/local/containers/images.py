"""Images of a user: a store in their home, in which their files have the user as their only owner.

A store of the user's own Podman can't be used: its files belong to subordinate ids, which need a set-uid
program.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from weir.local.containers import announcement
from weir.local.records.pod_records import FETCHES

STORE = ".local/share/weir/containers"
"""Directory of the store below the user's home."""
ARCHIVES = ("docker-archive:", "oci-archive:", "oci:", "dir:")
"""Images as files of the machine."""
_ID_MAX = 256
_REASON_MAX, _LINE_BYTES_MAX = 250, 1 << 13
_SECRETS = re.compile(
    r"(?<=://)[^\s\"']+(?=@(?!sha\d+:))|(?<=\?)[^\s\"']+|(?<=invalid port \")[^\s\"]+", re.ASCII
)
"""User and query of a URL: proxies have passwords, registries sign downloads, and others read the reason.

A password may hold a slash or an @; Podman then takes its beginning for a port. A digest follows another @.
"""
_IS_MISSING = 1
"""Exit code of `podman image exists` for a missing image; other codes are failures."""


class ImageNotAvailable(Exception):
    """The image is missing and can't be pulled; the text says why."""


def ensure(podman: Sequence[str], image: str, pull: str, store: str) -> str:
    """Return the name by which the runtime finds an image; pull the image first if the rule says so.

    Raises:
        ImageNotAvailable: the image can't be pulled.
        OSError: the store can't be used.
    """
    archive = _state_of(image)
    lock = os.open(f"{store}/pull.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pods of a gang need the same image: one pulls it
        local_name = _name_of(store, archive) if archive else image
        if (
            pull != "always"
            and local_name
            and _is_there(podman, local_name, must_know=pull == "never" and not archive)
        ):
            return local_name
        if pull == "never" and not archive:
            raise ImageNotAvailable(
                f"the image {image} isn't on this machine, and --pull never forbids fetching it"
            )
        made = _fetched(podman, image)
        if archive:
            _keep_name(store, archive, made)
        return made if archive else image
    finally:
        os.close(lock)


def _fetched(podman: Sequence[str], image: str) -> str:
    """Fetch an image; return its id."""
    print(f"weir: fetching the image {image}", file=sys.stderr, flush=True)
    announcement.announce(FETCHES)
    with (
        open(os.memfd_create("id"), "w+b") as ids,
        subprocess.Popen(  # noqa: S603 - the name was checked, and stands behind --
            [*podman, "pull", "--quiet", "--", image],
            stdin=subprocess.DEVNULL,
            stdout=ids,
            stderr=subprocess.PIPE,
        ) as pull,
    ):
        assert pull.stderr is not None
        reason = _pass_on(pull.stderr)
        code = pull.wait()
        ids.seek(0)
        made = ids.read().decode(errors="replace").split()
    if code or not made:
        raise ImageNotAvailable(
            f"the image {image} can't be fetched: {reason or f'podman exited with {code}'}"
        )
    return made[-1][:_ID_MAX]


def _pass_on(errors: IO[bytes]) -> str:
    """Write Podman's errors into the job's output as they appear; return the last one, shortened.

    Podman names the cause at the end of a line, so the end is kept.
    """
    last, is_cut = "", False
    while piece := errors.readline(_LINE_BYTES_MAX):
        with suppress(OSError):  # the disk may be full, which is then the reason too
            os.write(2, piece)
        text = piece.decode(errors="replace")
        if is_cut:  # the rest of a word may be that of a secret
            text = text.partition(" ")[2]
        last = text.strip() or last
        is_cut = not piece.endswith(b"\n")
    reason = _SECRETS.sub("...", last.removeprefix("Error: ").removeprefix("* "))
    return reason if len(reason) <= _REASON_MAX else f"... {reason[-_REASON_MAX:]}"


def _state_of(image: str) -> str:
    """Return a file name for the path and state of an image file; empty for an image of a registry."""
    if not image.startswith(ARCHIVES):
        return ""
    try:
        status = os.stat(image.partition(":")[2])
    except OSError as failure:
        raise ImageNotAvailable(f"the image {image} can't be read: {failure.strerror}") from None
    state = (image, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return hashlib.sha256(repr(state).encode()).hexdigest()


def _name_of(store: str, archive: str) -> str:
    """Return the id of an image that was fetched from this state of a file; empty if none was."""
    with suppress(OSError), open(f"{store}/archives/{archive}", encoding="ascii", errors="replace") as file:
        text = file.read(_ID_MAX)
        return text if text.isalnum() else ""
    return ""


def _keep_name(store: str, archive: str, made: str) -> None:
    os.makedirs(f"{store}/archives", 0o700, exist_ok=True)
    with open(f"{store}/archives/{archive}", "w", encoding="ascii") as file:
        file.write(made)


def _is_there(podman: Sequence[str], image: str, *, must_know: bool) -> bool:
    """Return True if the local storage has an image.

    Raises:
        ImageNotAvailable: Podman fails, and `must_know` is true: the image isn't pulled then.
    """
    with subprocess.Popen(  # noqa: S603 - the name was checked, and stands behind --
        [*podman, "image", "exists", "--", image], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as search:
        assert search.stderr is not None
        reason = _pass_on(search.stderr)
        code = search.wait()
    if code not in (0, _IS_MISSING) and must_know:
        why = reason or f"podman exited with {code}"
        raise ImageNotAvailable(f"the images of this machine can't be searched for {image}: {why}")
    return code == 0
