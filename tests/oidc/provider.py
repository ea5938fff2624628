"""A certified OpenID provider in a process of its own, and people who sign in to it with a browser."""

import json
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx
from tools import web

SCRIPT = Path(__file__).with_name("provider.mjs")
REDIRECT = "https://pool.example.org/api/v1/dashboard/oidc/callback"
CLIENT = "weir"
OTHER_CLIENT = "another-program"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def client(client_id: str = CLIENT, redirect: str = REDIRECT, **more: Any) -> dict[str, Any]:
    """Return a public client of the code flow with PKCE, and of the device flow."""
    return {
        "client_id": client_id,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token", DEVICE_GRANT],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        **more,
    }


class Providers:
    """The process, in which any number of providers run."""

    def __init__(self, folder: Path) -> None:
        script = folder / SCRIPT.name
        shutil.copy(SCRIPT, script)
        (folder / "node_modules").symlink_to(web.WEB / "node_modules")
        self.process = subprocess.Popen(
            [str(web.BIN / "node"), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, act: str, **asked: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"act": act, **asked}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "failed" not in answer, answer["failed"]
        return answer

    def start(self, **asked: Any) -> "Provider":
        return Provider(
            self, self.ask("start", **{"clients": [client(), client(OTHER_CLIENT)], **asked})["issuer"]
        )

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(120)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class Provider:
    """A running identity provider."""

    def __init__(self, providers: Providers, issuer: str) -> None:
        self._providers = providers
        self.issuer = issuer

    def ask(self, act: str, **asked: Any) -> Any:
        return self._providers.ask(act, issuer=self.issuer, **asked)

    def requests(self, path: str) -> int:
        """Return how often a path was asked for."""
        return int(self.ask("requests").get(path, 0))

    def get(self, path: str) -> bytes:
        """Return the body at a path."""
        return httpx.get(f"{self.issuer}{path}", trust_env=False, verify=False, timeout=120).content

    def id_token(self, account: str = "mia", client_id: str = CLIENT, nonce: str | None = None) -> str:
        """Return an ID token that the provider signs for a person who signs in with a browser."""
        return str(self.tokens(account, client_id, nonce)["id_token"])

    def tokens(
        self,
        account: str = "mia",
        client_id: str = CLIENT,
        nonce: str | None = None,
        redirect: str = REDIRECT,
    ) -> dict[str, Any]:
        """Sign in with a browser, by the code flow of some client; return what it gets."""
        verifier = "v" * 43
        challenge = "7w_YNF9DSfIdPf_pRjSq646_kPr-2-o9NAl16JGghdM"  # S256 of the verifier
        asked = {
            "client_id": client_id,
            "response_type": "code",
            "redirect_uri": redirect,
            "scope": "openid profile email",
            "state": "state",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **({} if nonce is None else {"nonce": nonce}),
        }
        with browser() as opened:
            back = sign_in(opened, f"{self.issuer}/auth?{urlencode(asked)}", account)
            code = parse_qs(urlsplit(back).query)["code"][0]
            answer = opened.post(
                f"{self.issuer}/token",
                data={
                    "grant_type": "authorization_code",
                    "client_id": client_id,
                    "code": code,
                    "redirect_uri": redirect,
                    "code_verifier": verifier,
                },
            )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@contextmanager
def browser(verify: ssl.SSLContext | bool = False) -> Iterator[httpx.Client]:
    """Yield a client that keeps cookies, as a browser does."""
    with httpx.Client(trust_env=False, timeout=120, verify=verify) as opened:
        yield opened


def sign_in(opened: httpx.Client, url: str, account: str) -> str:
    """Follow a sign-in until the provider sends the browser back; return that address.

    A page with a form of the provider is sent off: the name of the person, then their consent.
    """
    own = urlsplit(url).netloc
    answer = opened.get(url)
    for _ in range(20):
        if answer.is_redirect:
            url = urljoin(str(answer.url), answer.headers["Location"])
            if urlsplit(url).netloc != own:
                return url
            answer = opened.get(url)
            continue
        if "Sign-in Success" in answer.text:  # the end of the device flow
            return ""
        answer = _submit(opened, answer, {"login": account, "password": "any"})
    raise AssertionError(answer.text)


def _submit(opened: httpx.Client, page: httpx.Response, fields: dict[str, str]) -> httpx.Response:
    """Send the form of a page."""
    assert page.status_code == 200, page.text
    form = re.search(r'<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>', page.text, re.DOTALL)
    assert form is not None, page.text
    hidden = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form[2]))
    needed = {name: value for name, value in fields.items() if f'name="{name}"' in form[2]}
    return opened.post(urljoin(str(page.url), form[1].replace("&amp;", "&")), data={**hidden, **needed})
