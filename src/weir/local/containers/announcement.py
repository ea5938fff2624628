"""Announcement of a container's first process to the pool, as a message of the job.

The announcement is made before the job begins and with the job's rights, so the pool trusts it as little as
the job.
"""

import json
import os
import socket
import time
from contextlib import suppress

from weir.local.records import pod_files


def announce(kind: str) -> None:
    """Announce the work of a pod before its command begins; without an answer or a failure."""
    directory, name = os.environ["WEIR_POD_DIRECTORY"], os.environ.get("WEIR_POD_ID", "")
    note = {"kind": kind, "at_s": time.time(), "boot_s": time.clock_gettime(time.CLOCK_BOOTTIME)}
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        fd = os.open(f"{directory}/{pod_files.NOTES}", flags, 0o600)
        try:
            os.write(fd, json.dumps(note).encode() + b"\n")
        finally:
            os.close(fd)
        home, _, file = os.environ.get("WEIR_NOTES", "").rpartition("/")
        place = os.open(home, os.O_PATH | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
                out.sendto(name.encode(), f"/proc/self/fd/{place}/{file}")
        finally:
            os.close(place)
