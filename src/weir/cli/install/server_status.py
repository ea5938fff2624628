"""Status of the pool that is installed on this machine, over its socket."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weir.client.errors import PoolError, Unreachable

if TYPE_CHECKING:
    from weir.api.answers import PoolStatus

WAIT_S_MAX = 90.0
"""Time for a server to answer: a large database is checked before its first answer."""
_LOOK_S = 0.25
_ANSWER_S = 5.0


def pool_status(directory: Path) -> "PoolStatus":
    """Return the status of the pool whose socket is in a directory.

    Raises:
        Unreachable: the pool doesn't answer.
        Refused: the pool refuses this user.
    """
    import httpx

    from weir.api.answers import PoolStatus
    from weir.client.address import Address
    from weir.client.calls import refusal
    from weir.client.transport import client, unreachable

    try:
        owner = directory.stat().st_uid
    except OSError as error:
        raise Unreachable(f"{directory} can't be read ({error.strerror}): no server has made it.") from None
    address = Address("http://127.0.0.1", None, frozenset({owner}), directory)
    with client(address, _ANSWER_S, None) as http:
        try:
            answer = http.get("status")
        except httpx.TransportError as error:
            raise unreachable(address, error) from error
    if not answer.is_success:
        raise refusal(answer.status_code, answer.content)
    return PoolStatus.model_validate_json(answer.content)


def wait_for_pool(directory: Path, has_failed: Callable[[], bool]) -> "PoolStatus":
    """Return the status of the pool as soon as it answers. A service that has failed isn't waited for.

    Raises:
        PoolError: it didn't answer in time; the last reason.
    """
    until_s = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            return pool_status(directory)
        except PoolError:
            if time.monotonic() >= until_s or has_failed():
                raise
        time.sleep(_LOOK_S)
