"""`weir dashboard`: a link that signs in to the page of a pool, or a server of the page for a cluster."""

import sys
from typing import Annotated

from cyclopts import Parameter

from weir.cli.options.mistakes import WrongOption
from weir.cli.options.numbers import whole_number
from weir.cli.pool.connect import connect

OpenOption = Annotated[
    bool,
    Parameter(
        name="--open",
        negative="--no-open",
        help="Open the link in a browser, if this machine has one and a person looks at it.",
    ),
]


def dashboard(
    *,
    open_: OpenOption = True,
    port: Annotated[int | None, whole_number(0, 65535)] = None,
    namespace: Annotated[str | None, Parameter(name=("--namespace", "-n"))] = None,
) -> int:
    """Print a link to the dashboard, and open it in a browser.

    The link works once, within a minute. It has the rights of the token that this command uses. On a cluster
    this command serves the dashboard until Ctrl-C, with the rights of the kubeconfig.

    Parameters
    ----------
    port
        On a cluster: port of 127.0.0.1 to listen on; a free one by default.
    namespace
        On a cluster: show this namespace alone.
    """
    from weir.client.address import find

    address = find()
    if address.is_cluster:
        from weir.cli.cluster.dashboard.page_process import serve

        open_link = open_in_browser if open_ else _stay
        return serve(address.context, namespace=namespace, port=port or 0, open_link=open_link)
    if port is not None:
        raise WrongOption("--port is for clusters: a pool serves its dashboard at its own address")
    with connect(namespace=namespace) as pool:
        if pool.address.url.startswith("https:") and not pool.address.token:  # people sign in by themselves
            print(pool.address.url, flush=True)
            print("Sign in there with OpenID Connect.", file=sys.stderr)
            if open_:
                open_in_browser(pool.address.url, is_secret=False)
            return 0
        ssh = pool.address.ssh
        url = pool.address.url if ssh is None else "http://127.0.0.1:9347"
        link = f"{url}{pool.dashboard_link().path}"
    print(link, flush=True)
    if ssh is not None:
        tunnel = f"ssh -NL 9347:127.0.0.1:9347 {ssh.destination}"
        print(f"The dashboard is on that machine: run `{tunnel}` meanwhile.", file=sys.stderr)
    print("The link signs you in once, within a minute.", file=sys.stderr)
    if open_:
        open_in_browser(link)
    return 0


def _stay(_link: str) -> None:
    """Leave a link to the person."""


def open_in_browser(link: str, *, is_secret: bool = True) -> None:
    """Open a link in a browser of this machine, if it has one and a person looks at it.

    `is_secret`: the link signs in, and other users of this machine mustn't read it in a list of processes.
    """
    import os
    import webbrowser

    has_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"
    if not has_screen or not sys.stdout.isatty():
        return
    if is_secret:
        from weir.cli.dashboard.redirect_file import written

        try:
            link = written(link)
        except OSError:
            return  # the address is printed
    webbrowser.open(link)
