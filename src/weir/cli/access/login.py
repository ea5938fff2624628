"""`weir login`, `weir logout` and `weir whoami`: the person who uses a pool."""

import sys
from typing import TYPE_CHECKING

from weir.cli.output.outputs import OutputOption, show_one
from weir.cli.output.terminal import plain
from weir.cli.pool.connect import connect
from weir.client.errors import PoolError

if TYPE_CHECKING:
    from weir.api.access import WhoAmI


def login(url: str | None = None, /) -> int:
    """Log in at a pool with OpenID Connect: open the address in any browser, and check the code.

    The login stays in a file that only you can read, and is renewed as long as the identity provider allows.

    Parameters
    ----------
    url
        Address of the pool, such as https://gpu1.example.org:8443; by default $WEIR_URL.
    """
    from os import environ

    from weir.client import device_login
    from weir.client.address import TOKEN

    pool = _https_url(url)

    def tell(address: str, code: str) -> None:
        print(
            f"Open {plain(address)} in a browser, and check that it shows the code {plain(code)}.", flush=True
        )

    device_login.log_in(pool, tell)
    print(f"You are logged in at {pool}.")
    if environ.get(TOKEN):
        print(f"{TOKEN} is set, and comes before the login: unset it.", file=sys.stderr)
    if url is not None:
        print(f"To use it: export WEIR_URL={pool}", file=sys.stderr)
    return 0


def logout(url: str | None = None, /) -> int:
    """Forget a login, and revoke it at the identity provider.

    Parameters
    ----------
    url
        Address of the pool; by default $WEIR_URL.
    """
    from weir.client import device_login, logins

    pool = _https_url(url)
    saved_login = logins.forget(pool)
    if saved_login is None:
        print(f"You aren't logged in at {pool}.")
        return 0
    try:
        device_login.revoke(saved_login)
    except PoolError as error:
        print(f"weir: The login is forgotten here, but not at the provider: {error}", file=sys.stderr)
    print(f"You are logged out at {pool}.")
    return 0


def whoami(*, output: OutputOption = "table") -> int:
    """Show your user in the pool, your way of signing in, and your role in each department and project."""
    with connect() as pool:
        person = pool.whoami()
    show_one(person, output, lambda _person: [plain(line) for line in _lines(person)])
    return 0


def _lines(person: "WhoAmI") -> list[str]:
    lines = [f"{person.user}, by {person.signed_in_by}"]
    if person.is_admin:
        return [*lines, "administrator"]
    width = max((len(scope) for scope in person.roles), default=0)
    return [*lines, *(f"{scope:<{width}}  {role}" for scope, role in person.roles.items())]


def _https_url(named: str | None) -> str:
    """Return the address of a pool at which people log in.

    Raises:
        LoginFailed: no address is named, or the address has no HTTPS.
    """
    from os import environ

    from weir.client.address import URL
    from weir.client.device_login import LoginFailed
    from weir.client.logins import origin_of

    url = named or environ.get(URL, "")
    if not url.startswith("https://"):
        raise LoginFailed(f"Name the pool to log in at, such as https://gpu1.example.org:8443, or set {URL}.")
    return origin_of(url)
