"""Connection of a command: to the server on this machine or elsewhere, or to a cluster."""

import sys
from typing import TYPE_CHECKING

from weir.cli.options.mistakes import WrongOption

if TYPE_CHECKING:
    from weir.client.api import Pool
    from weir.client.errors import Unreachable


def connect(*, namespace: str | None = None) -> "Pool":
    """Return the pool of `$WEIR_URL`, else the one on this machine; `namespace` is for clusters.

    Raises:
        Unreachable: no pool is known, or its address is invalid.
        WrongOption: an option is for clusters only.
    """
    from weir.client.address import find
    from weir.client.api import Pool

    address = find()
    if not address.is_cluster:
        if namespace is not None:
            raise WrongOption("--namespace is for clusters: leave it out, or set WEIR_URL=kube:")
        return Pool(on_outage=report_outage)
    from weir.cli.cluster.transport import ClusterTransport

    transport = ClusterTransport(address.context, namespace=namespace)
    return Pool(address.url, transport=transport, on_outage=report_outage)


def report_outage(error: "Unreachable | None") -> None:
    """Report that the pool is unreachable, or with None that it answers again; the command waits."""
    from weir.cli.output.terminal import plain

    sys.stdout.flush()
    text = "The pool answers again." if error is None else f"{plain(str(error))} Waiting for it."
    print(f"weir: {text}", file=sys.stderr, flush=True)


def refuse_on_cluster(*parts: str) -> None:
    """Refuse a request that clusters don't support, before the person is asked for input.

    Raises:
        Refused: the address is that of a cluster.
    """
    from weir.client.address import find

    if find().is_cluster:
        from weir.cli.cluster.errors import not_here
        from weir.cli.cluster.other_tools import instead_of

        raise not_here(instead_of(parts))
