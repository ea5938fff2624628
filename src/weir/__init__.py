"""Weir: one pool of GPUs for many teams, with guaranteed quotas and honest answers.

Inside a job: `weir.checkpointed(step=...)`, `weir.stopping()`, `weir.report(step=..., loss=...)`,
`weir.busy("indexing", until=...)`, `weir.world()`. From anywhere: `weir.Pool()` and `weir.AsyncPool()`
submit and watch.
"""

from typing import TYPE_CHECKING, Any

from weir.version import __version__

if TYPE_CHECKING:
    from weir.client.aio import AsyncPool
    from weir.client.api import Pool
    from weir.client.in_job import busy, checkpointed, report, stopping, world

__all__ = ["AsyncPool", "Pool", "__version__", "busy", "checkpointed", "report", "stopping", "world"]


def __getattr__(name: str) -> Any:
    """Load a name when it is used: importing `weir` costs nothing."""
    if name in {"busy", "checkpointed", "report", "stopping", "world"}:
        from weir.client import in_job

        return getattr(in_job, name)
    if name in {"AsyncPool", "Pool"}:
        from weir import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
