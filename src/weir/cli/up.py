"""`weir up`: the pool on this machine."""

import sys
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
    log_most: str = "1Gi",
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
    log_most
        How much of a pod's output is kept, its beginning and its end, such as 1Gi; 0 for all of it.
    log_level
        What the server says of itself on the error output.
    """
    from weir.client.address import home
    from weir.server.up import DEFAULT_HOST, DEFAULT_PORT, run

    try:
        kept = _bytes(log_most)
    except ValueError as error:
        print(f"weir: --log-most: {error}.", file=sys.stderr)
        return 2
    return run(
        home(),
        host=DEFAULT_HOST if host is None else host,
        port=DEFAULT_PORT if port is None else port,
        virtual_gpus=virtual_gpus,
        policy_file=policy,
        database=database,
        log_most=kept,
        log_level=log_level,
    )


def _bytes(written: str) -> int:
    from weir.backends.local.output import LEAST
    from weir.model.resources import MEMORY, amount

    kept = amount(MEMORY, written)
    if 0 < kept < LEAST:
        raise ValueError(f"{written!r} is too little; write 1Mi or more, or 0 for all of it")
    return kept
