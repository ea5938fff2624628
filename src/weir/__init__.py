"""Weir: one pool of GPUs for many teams, with guaranteed quotas and honest answers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.client.aio import AsyncPool as AsyncPool
    from weir.client.api import Pool as Pool

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The clients, imported when they are asked for: `weir --help` and jobs need none."""
    if name in ("Pool", "AsyncPool"):
        from weir import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
