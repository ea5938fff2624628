"""Weir: one pool of GPUs for many teams, with guaranteed quotas and honest answers."""

__version__ = "0.1.0"
