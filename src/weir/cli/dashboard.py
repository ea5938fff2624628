"""`weir dashboard`: a link that signs in to the page of the pool."""

import sys
from typing import Annotated

from cyclopts import Parameter

CLUSTER = "A cluster has no dashboard: it is for a pool that `weir up` serves."


def dashboard(*, open_: Annotated[bool, Parameter(name="--open", negative="--no-open")] = True) -> int:
    """Print a link to the dashboard, and open it in a browser.

    The link works once, within a minute. It has the rights of the token that this command uses.

    Parameters
    ----------
    open_
        Open the link in a browser, if this machine has one and a person looks at it.
    """
    from weir.cli.connect import connect

    with connect() as pool:
        if pool.address.is_cluster:
            print(f"weir: {CLUSTER}", file=sys.stderr)
            return 1
        if pool.address.url.startswith("https:") and not pool.address.token:
            return _address(pool.address.url, open_=open_)
        ssh = pool.address.ssh
        url = pool.address.url if ssh is None else "http://127.0.0.1:9347"
        link = f"{url}{pool.dashboard_link().path}"
    print(link, flush=True)
    if ssh is not None:
        tunnel = f"ssh -NL 9347:127.0.0.1:9347 {ssh.destination}"
        print(f"The dashboard is on that machine: run `{tunnel}` meanwhile.", file=sys.stderr)
    print("It signs you in once, within a minute.", file=sys.stderr)
    if open_ and sys.stdout.isatty():
        open_in_browser(link)
    return 0


def _address(url: str, *, open_: bool) -> int:
    """Print the address of a pool with OpenID Connect: people sign in there by themselves."""
    print(url, flush=True)
    print("Sign in there with OpenID Connect.", file=sys.stderr)
    if open_ and sys.stdout.isatty():
        open_in_browser(url)
    return 0


def open_in_browser(link: str) -> None:
    """Open a link in a browser of this machine; do nothing where there is none."""
    import os
    import webbrowser

    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
        webbrowser.open(link)
