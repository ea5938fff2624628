"""Times and uids of objects as numbers, and times as the API writes them."""

import hashlib
import math
import zlib
from datetime import UTC, datetime
from functools import lru_cache

_UID_DIGITS = 13
"""Hexadecimal digits of a uid that a number holds: a float has 53 bits."""
_VERSION = 12
"""Position of the digit that is the same in all uids."""
LATEST_S = 253402300799.0
"""Last second that a time of the API can state, in the year 9999."""


def moment(at_s: float) -> str:
    """Return a time as the API writes it."""
    return _second(int(min(max(at_s, 0.0), LATEST_S)) if math.isfinite(at_s) else int(LATEST_S))


@lru_cache(maxsize=4096)
def _second(at_s: int) -> str:
    """Return a whole second as the API writes it; most times of a burst are of few seconds."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(written: str | None) -> float:
    """Return a time of the API in seconds since the epoch; 0 without one, or if it can't be read."""
    try:
        return 0.0 if not written else max(0.0, datetime.fromisoformat(written).timestamp())
    except (ValueError, OverflowError):
        return 0.0


def at_s(written: str | None) -> float | None:
    """Return a time of the API as seconds since the epoch; None without one, or if it can't be read."""
    return seconds_of(written) or None


def workload_identity(namespace: str, owner_uid: str, gang: str = "", *, uid: str = "") -> str:
    """Return the identity of a workload; `gang` distinguishes the gangs of one owner.

    A pod may name any uid as that of its owner, so the namespace is part of the identity. For an unknown
    owner it has the `uid` of the Workload object.
    """
    of_owner = f"{owner_uid}/{gang}" if owner_uid and gang else owner_uid
    return f"{namespace}/{of_owner or uid}"


def workload_number(namespace: str, owner_uid: str, gang: str = "", *, uid: str = "") -> int:
    """Return the number of a workload in answers and in the history."""
    return number_of(workload_identity(namespace, owner_uid, gang, uid=uid))


def number_of(uid: str) -> int:
    """Return the uid of an object as a number that browsers hold exactly, for a pool's answers.

    Of an identity of several parts, as A/B, it is a number of all of them.
    """
    digits = hashlib.sha256(uid.encode()).hexdigest() if "/" in uid else uid.replace("-", "")
    digits = digits[:_VERSION] + digits[_VERSION + 1 : _UID_DIGITS + 1]
    try:
        return int(digits or "0", 16)
    except ValueError:  # an API server makes no such uid
        return zlib.crc32(uid.encode())
