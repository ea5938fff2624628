"""The extras of the package, and the sentence that names the one a command needs."""

from collections.abc import Sequence

DOMAINS = {
    "server": (
        "alembic",
        "authlib",
        "cronsim",
        "fastapi",
        "h11",
        "httptools",
        "joserfc",
        "numpy",
        "prometheus_client",
        "pynvml",
        "sqlalchemy",
        "starlette",
        "structlog",
        "uvicorn",
    ),
    "kubernetes": (
        "aiohttp",
        "cronsim",
        "cryptography",
        "h11",
        "httptools",
        "kubernetes",
        "msgspec",
        "numpy",
        "prometheus_client",
        "re2",
        "structlog",
        "wsproto",
    ),
    "dashboard": ("authlib", "joserfc"),
    "history": ("alembic", "psycopg", "sqlalchemy"),
    "node": ("google", "grpc", "pynvml"),
    "simulation": ("numpy",),
}
"""Top-level modules that each extra brings and the plain package lacks."""


def missing_extra(module: str, extra: str, tokens: Sequence[str]) -> str | None:
    """Return the extra that brings a module a command needs; None for a module of no extra.

    Args:
        module: the module that wasn't found.
        extra: the extra of the command, or "" for a command of the plain package.
        tokens: the command line.
    """
    top = module.partition(".")[0]
    on_kubernetes = "kubernetes" in tokens or "--on=kubernetes" in tokens
    wanted = ("kubernetes", "history") if on_kubernetes else (extra or "kubernetes",)
    bringing = [name for name, tops in DOMAINS.items() if top in tops]
    if extra == "demo" and "server" in bringing:
        return extra
    return next((name for name in (*wanted, *bringing) if name in bringing), None)


def how_to_install(command: str, extra: str) -> str:
    """Return a sentence with the package to install for a command."""
    return f"`weir {command}` needs packages that aren't installed: pip install 'weir[{extra}]'"
