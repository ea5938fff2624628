"""`weir up`: the pool on this machine."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number


def up(
    *,
    host: str | None = None,
    port: Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))] = None,
    virtual_gpus: Annotated[int | None, Parameter(validator=Number(gte=0, lte=1024))] = None,
    policy: Path | None = None,
    database: str | None = None,
    log_level: Literal["debug", "info", "warning", "error"] = "info",
) -> int:
    """Serve this machine's GPUs as a pool, until it is told to stop. What runs goes on without it.

    Its state lives in $WEIR_HOME, or ~/.weir.

    Parameters
    ----------
    host
        The address to listen on; this machine alone by default.
    port
        The port to listen on; 0 takes any that is free.
    virtual_gpus
        So many GPUs that aren't there, instead of those that are: to try things out.
    policy
        A policy file; the preset fair if none.
    database
        Where state is kept, as a URL, instead of the file in the home.
    log_level
        What the server says of itself on the error output.
    """
    from weir.client.address import home
    from weir.server.up import DEFAULT_HOST, DEFAULT_PORT, run

    return run(
        home(),
        host=DEFAULT_HOST if host is None else host,
        port=DEFAULT_PORT if port is None else port,
        virtual_gpus=virtual_gpus,
        policy_file=policy,
        database=database,
        log_level=log_level,
    )
