"""Where the pool is and who asks: from the environment, else from what a server on this machine wrote.

Standard library alone: completion uses it while a person types.
"""

import ipaddress
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from weir.client.errors import Unreachable

URL, TOKEN, HOME = "WEIR_URL", "WEIR_TOKEN", "WEIR_HOME"
CLUSTER = "kube:"
"""A context of the kubeconfig, or nothing for the current one, in place of a URL."""
NO_CLUSTER = "{} is a cluster, which `weir` on the command line asks; programs ask its API for Workloads."
ELSEWHERE = f"set {URL} and {TOKEN} to use one elsewhere"


@dataclass(frozen=True, slots=True)
class Address:
    """A pool's URL, and the token to ask with."""

    url: str
    token: str | None = field(repr=False, default=None)

    @property
    def is_cluster(self) -> bool:
        """Whether it is a cluster of a kubeconfig, which the command line asks by itself."""
        return self.url.startswith(CLUSTER)

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this very machine: no proxy has a part in that."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def home() -> Path:
    """The directory of the pool on this machine."""
    named = os.environ.get(HOME)
    return Path(named) if named else Path.home() / ".weir"


def find(url: str | None = None, token: str | None = None) -> Address:
    """The pool that is meant: the arguments, else the environment, else the one on this machine.

    Raises:
        Unreachable: none is known, or what names it can't be used.
    """
    named = url or os.environ.get(URL)
    token = token or os.environ.get(TOKEN) or None
    if named:
        return Address(_checked(named), token)
    at = home()
    try:
        written = json.loads((at / "server.json").read_text("utf-8"))["url"]
    except FileNotFoundError:
        raise Unreachable(f"No pool is known here: start one with `weir up`, or {ELSEWHERE}.") from None
    except PermissionError:
        raise Unreachable(f"{at} belongs to someone else: ask them for a token, and {ELSEWHERE}.") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Unreachable(
            f"{at / 'server.json'} can't be read: start the pool anew with `weir up`."
        ) from error
    if token is None:
        try:
            token = (at / "token").read_text("utf-8").strip() or None
        except OSError:
            raise Unreachable(f"{at / 'token'} can't be read: ask for a token, and set {TOKEN}.") from None
    return Address(_checked(str(written)), token)


def _checked(url: str) -> str:
    if url.startswith(CLUSTER):
        return url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unreachable(f"{url} is no address of a pool: write one such as http://127.0.0.1:9347.")
    return url.rstrip("/")
