"""Addresses of sessions: each person gets a loopback address of their own.

Pages of one address share an origin, and what they ask for goes with the browser's cookies. So a page of one
person's session, to which someone else may be lured by a link, must not have the address of another's.
"""

from hashlib import sha256

LOOPBACK = "127.0.0.1"
_HALF = 128


def own_address(user: str) -> str:
    """Return the loopback address of a person, different from those of others."""
    second, third, fourth = sha256(user.encode("utf-8", "surrogatepass")).digest()[:3]
    return f"127.{_HALF + second % _HALF}.{third}.{1 + fourth % 254}"
