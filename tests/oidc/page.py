"""The dashboard of a remote pool in a browser."""

import ssl
from typing import Protocol

import httpx

from .provider import browser, sign_in

START = "/api/v1/dashboard/oidc/start"
SIGN_IN = "/api/v1/dashboard/sign-in"


class Site(Protocol):
    """A server of the dashboard."""

    context: ssl.SSLContext

    def asks(self) -> httpx.Client:
        """Return a client of its address."""
        ...


class Page:
    """The dashboard in a browser."""

    def __init__(self, pool: Site) -> None:
        self.pool = pool
        self.opened = pool.asks()
        self.proof = ""

    def to_provider(self) -> str:
        """Return the address at the provider to which the pool sends the browser."""
        answer = self.opened.get(START)
        assert answer.status_code == 303, answer.text
        self.flow_cookie = answer.headers["set-cookie"]
        return str(answer.headers["Location"])

    def come_back(self, url: str) -> httpx.Response:
        return self.opened.get(url)

    def finish(self, answer: httpx.Response) -> httpx.Response:
        """Redeem the link, as the page does."""
        assert answer.status_code == 303, answer.text
        code = answer.headers["Location"].removeprefix("/#code=")
        begun = self.opened.post(SIGN_IN, json={"code": code})
        if begun.is_success:
            self.proof = begun.json()["proof"]
            self.opened.headers["X-Weir-Proof"] = self.proof
        return begun

    def sign_in(self, account: str) -> httpx.Response:
        with browser(self.pool.context) as at_provider:
            return self.finish(self.come_back(sign_in(at_provider, self.to_provider(), account)))
