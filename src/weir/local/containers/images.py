"""Images of a user: a store in their home, in which their files have the user as their only owner.

A store of the user's own Podman can't be used: its files belong to subordinate ids, which need a set-uid
program.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence

STORE = ".local/share/weir/containers"
"""Directory of the store below the user's home."""
ARCHIVES = ("docker-archive:", "oci-archive:", "oci:", "dir:")
"""Images as files of the machine."""
_ID_MOST = 256


class ImageNotAvailable(Exception):
    """The image isn't there and can't be got; the text says why."""


def ensure(podman: Sequence[str], image: str, pull: str, store: str) -> str:
    """Return the name by which the runtime finds an image; get the image first if it is to be.

    Raises:
        ImageNotAvailable: it can't be got.
        OSError: the store can't be used.
    """
    archive = image.startswith(ARCHIVES)
    lock = os.open(f"{store}/pull.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pods of a gang need the same image: one of them gets it
        if pull != "always" and not archive and _is_there(podman, image):
            return image
        if pull == "never" and not archive:
            raise ImageNotAvailable(f"the image {image} isn't here, and --pull never fetches none")
        print(f"weir: fetching the image {image}", file=sys.stderr, flush=True)
        done = subprocess.run(  # noqa: S603 - the name was checked, and stands behind --
            [*podman, "pull", "--quiet", "--", image],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
        made = done.stdout.decode(errors="replace").split()
        if done.returncode or not made:
            raise ImageNotAvailable(f"the image {image} can't be fetched; the job's output says why")
        return made[-1][:_ID_MOST] if archive else image
    finally:
        os.close(lock)


def _is_there(podman: Sequence[str], image: str) -> bool:
    done = subprocess.run(  # noqa: S603 - the name was checked, and stands behind --
        [*podman, "image", "exists", "--", image], stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode == 0
