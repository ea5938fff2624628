"""Verification of tokens that an identity provider signed, and the identity that they prove."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any

from joserfc import jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import KeySet

from weir.dashboard.oidc.errors import TokenInvalid
from weir.dashboard.oidc.provider import ASYMMETRIC
from weir.dashboard.oidc.settings import OidcSettings

LEEWAY_S = 60
"""Difference of the clocks of provider and pool that is accepted."""
TOKEN_LENGTH_MAX = 16 << 10
LIFETIME_S_MAX = 86_400.0
"""Maximum lifetime of an accepted token, even if the token states a longer one."""
GROUPS_MAX = 500
NAME_LENGTH_MAX = 200
_KINDS = frozenset({"JWT", "AT+JWT"})


@dataclass(frozen=True, slots=True)
class OidcIdentity:
    """A person as a provider names them.

    Attributes:
        subject: what never changes about a person at their provider.
        name: their user name there.
        groups: the names of their groups there.
        expires_s: time at which the token expires, by the wall clock.
    """

    subject: str
    name: str
    groups: frozenset[str] = field(default_factory=frozenset)
    expires_s: float = 0.0


def key_of(token: str) -> str | None:
    """Return the key id in the head of a token, which isn't verified yet; None if the head names none.

    Raises:
        TokenInvalid: the text is too long or no token, or its kind of signature isn't accepted.
    """
    if len(token) > TOKEN_LENGTH_MAX or not token.isascii():
        raise TokenInvalid("it is too long, or not plain text")
    try:
        first = token.partition(".")[0]
        head = json.loads(base64.b64decode(first + "=" * (-len(first) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise TokenInvalid("its head can't be read") from None
    if not isinstance(head, dict):
        raise TokenInvalid("its head can't be read")
    if head.get("alg") not in ASYMMETRIC:
        raise TokenInvalid(f"its algorithm {str(head.get('alg'))[:20]!r} isn't accepted")
    if str(head.get("typ", "JWT")).upper().removeprefix("APPLICATION/") not in _KINDS or "crit" in head:
        raise TokenInvalid("it isn't an ID token")
    kid = head.get("kid")
    if kid is not None and not (isinstance(kid, str) and len(kid) <= NAME_LENGTH_MAX):
        raise TokenInvalid("the name of its key can't be read")
    return kid


def verified(
    token: str, keys: KeySet, settings: OidcSettings, now_s: float, nonce: str | None = None
) -> OidcIdentity:
    """Return the identity that a token proves. `nonce` is that of the sign-in that it answers.

    Raises:
        TokenInvalid: signature, issuer, audience, times or nonce don't hold, or it names no person.
    """
    key_of(token)
    try:
        decoded = jwt.decode(token, keys, algorithms=list(ASYMMETRIC))
    except BadSignatureError:
        raise TokenInvalid("its signature is wrong") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise TokenInvalid(f"its signature can't be verified ({type(error).__name__})") from None
    claims: dict[str, Any] = decoded.claims
    _check_origin(claims, settings)
    expires_s = _check_times(claims, now_s)
    if nonce is not None:
        claimed_nonce = claims.get("nonce")
        if not isinstance(claimed_nonce, str) or not compare_digest(claimed_nonce.encode(), nonce.encode()):
            raise TokenInvalid("its nonce is of another sign-in")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= NAME_LENGTH_MAX or not subject.isprintable():
        raise TokenInvalid("it names no subject")
    return OidcIdentity(subject, _name(claims, settings), _groups(claims, settings), expires_s)


def _check_origin(claims: Mapping[str, Any], settings: OidcSettings) -> None:
    if claims.get("iss") != settings.issuer:
        raise TokenInvalid("its issuer is another one")
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not any(name in settings.audiences for name in named):
        raise TokenInvalid("it is for another audience")
    party = claims.get("azp")
    if party is not None and party not in settings.audiences:
        raise TokenInvalid("it was issued to another client")
    if "events" in claims:
        raise TokenInvalid("it isn't an ID token")


def _check_times(claims: Mapping[str, Any], now_s: float) -> float:
    """Return when a token expires."""
    expires_s, issued_s = _time(claims, "exp"), _time(claims, "iat")
    if expires_s is None or issued_s is None:
        raise TokenInvalid("it doesn't say when it was issued and expires")
    expires_s = min(expires_s, issued_s + LIFETIME_S_MAX)
    if now_s >= expires_s + LEEWAY_S:
        raise TokenInvalid("it has expired")
    begins_s = max(issued_s, _time(claims, "nbf") or issued_s)
    if begins_s > now_s + LEEWAY_S:
        raise TokenInvalid("it is from the future: the clocks of pool and provider differ")
    return expires_s


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenInvalid(f"its {name} is no time")
    return float(value)


def _name(claims: Mapping[str, Any], settings: OidcSettings) -> str:
    claim = settings.user_claim
    if claim is None:
        return str(claims["sub"])
    name = claims.get(claim)
    if not isinstance(name, str) or not is_plain_name(name):
        raise TokenInvalid(f"its claim {claim[:80]!r} names no person")
    if claim == "email" and claims.get("email_verified") is not True:
        raise TokenInvalid("the provider hasn't verified the e-mail address")
    return name


def _groups(claims: Mapping[str, Any], settings: OidcSettings) -> frozenset[str]:
    """Return the groups, without names that no membership could have."""
    groups = None if settings.user_claim is None else claims.get(settings.groups_claim)
    if isinstance(groups, str):
        groups = [groups]
    if not isinstance(groups, list):
        return frozenset()
    if len(groups) > GROUPS_MAX:
        raise TokenInvalid(
            f"it names more than {GROUPS_MAX} groups: let the provider send those of this client"
        )
    plain = (group.removeprefix("/") for group in groups if isinstance(group, str))
    return frozenset(group for group in plain if is_plain_name(group))


def is_plain_name(name: str) -> bool:
    """Return True if a name can be shown, and be written in a membership."""
    is_short = 0 < len(name) <= NAME_LENGTH_MAX
    return (
        is_short
        and name.isprintable()
        and not any(character.isspace() or character in "/:" for character in name)
    )
