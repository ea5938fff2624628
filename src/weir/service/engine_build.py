"""Build of the engine that this process runs: compiled, or the sources."""

from weir.engine import cycle


def engine_kind() -> str:
    """Return `compiled` or `sources`, by the file that the engine was loaded from."""
    return "sources" if cycle.__file__.endswith(".py") else "compiled"
