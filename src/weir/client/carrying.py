"""What both clients have in common: how a connection is made, and when it is given up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from weir import __version__
from weir.client.address import TOKEN, Address
from weir.client.errors import Unreachable
from weir.model.pool import Submission

ENDED = ("succeeded", "failed", "stopped")
LOOK_S_MIN, LOOK_S_MAX = 0.05, 1.0
"""How often `wait` asks, at first and after a while."""
PATIENCE_S = 60.0
"""How long a pool that answered may be away before it is given up: long enough for an upgrade."""
FOLLOW = httpx.Timeout(10.0, read=60.0)
"""Of the stream of changes: a pool that lives says something now and then."""
FOLLOW_LOGS = httpx.Timeout(10.0, read=None)
"""A job may be silent for days."""
CONNECT_S = 5.0
RETRY_AFTER_S_MAX = 10.0


def settings(address: Address, timeout_s: float) -> dict[str, Any]:
    """How httpx is set up. A proxy has no part in what stays on this machine."""
    headers = {"User-Agent": f"weir/{__version__}", "Accept": "application/json, text/plain;q=0.9, */*;q=0.5"}
    if address.token:
        headers["Authorization"] = f"Bearer {address.token}"
    return {
        "base_url": f"{'http://cluster' if address.is_cluster else address.url}/api/v1",
        "headers": headers,
        "timeout": httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        "trust_env": not address.is_loopback,
        "follow_redirects": False,  # a token goes nowhere else
    }


def unreachable(address: Address, error: httpx.TransportError) -> Unreachable:
    """A failed connection, in words."""
    if isinstance(error, httpx.ConnectTimeout | httpx.ReadTimeout | httpx.PoolTimeout | httpx.WriteTimeout):
        return Unreachable(
            f"The pool at {address.url} doesn't answer in time: try again, or look at its log."
        )
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
        return Unreachable(f"The connection to the pool at {address.url} broke: try again.")
    start = "start it with `weir up`" if address.is_loopback else f"check the address and {TOKEN}"
    return Unreachable(f"The pool at {address.url} can't be reached: {start}.")


def here(
    address: Address, submission: Submission | Mapping[str, Any] | None, words: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The words of a submission, with the current directory where the pool can have the same one."""
    said = submission.directory if isinstance(submission, Submission) else (submission or {}).get("directory")
    if said or words.get("directory") or not address.is_loopback:
        return words
    return {**words, "directory": str(Path.cwd())}
