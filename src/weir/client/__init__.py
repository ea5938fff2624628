"""The typed client of a pool, and the calls inside a job.

This module imports little: jobs import the package too, and completion runs while a person types.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.client.aio import AsyncPool as AsyncPool
    from weir.client.api import Pool as Pool
    from weir.client.errors import PoolError as PoolError
    from weir.client.errors import Refused as Refused
    from weir.client.errors import Unreachable as Unreachable

_AT = {
    "AsyncPool": "weir.client.aio",
    "Pool": "weir.client.api",
    "PoolError": "weir.client.errors",
    "Refused": "weir.client.errors",
    "Unreachable": "weir.client.errors",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _AT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_AT[name]), name)
