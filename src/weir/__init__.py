"""Weir: one pool of GPUs for many teams, with guaranteed quotas and honest answers.

Inside a job: `weir.checkpointed(step=...)`, `weir.stopping()`, `weir.report(step=..., loss=...)`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.client.inside import checkpointed, report, stopping

__version__ = "0.1.0"
__all__ = ["__version__", "checkpointed", "report", "stopping"]


def __getattr__(name: str) -> Any:
    """Load what jobs use when they use it: importing `weir` costs nothing."""
    if name in {"checkpointed", "report", "stopping"}:
        from weir.client import inside

        return getattr(inside, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
