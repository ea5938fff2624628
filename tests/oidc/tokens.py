"""Parts of the tests of tokens: a provider as a pool knows it, a clock, and the parts of a token."""

import base64
import json
import time
from typing import Any

from weir.dashboard.oidc.id_tokens import OidcIdentity, key_of, verified
from weir.dashboard.oidc.provider import (
    IdentityProvider,
)
from weir.dashboard.oidc.settings import OidcSettings

from .provider import CLIENT


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def verify(
    known: IdentityProvider, token: str, *, nonce: str | None = None, off_s: float = 0.0, **settings: Any
) -> OidcIdentity:
    fields = {"issuer": known._settings.issuer, "client_id": CLIENT, **settings}
    keys = await known.keys(key_of(token))
    now_s = decoded(token)[1]["iat"] + off_s if off_s else time.time()
    return verified(token, keys, OidcSettings(**fields), now_s, nonce)


def encoded(value: bytes | dict[str, Any]) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    head, claims = (json.loads(base64.urlsafe_b64decode(f"{part}===")) for part in token.split(".")[:2])
    return head, claims
