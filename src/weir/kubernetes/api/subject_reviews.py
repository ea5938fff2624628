"""Questions to the API server about people: the user of a token, and the rights of a user."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from weir.kubernetes.api.client import ApiClient

TOKEN_LENGTH_MAX = 16_384


class User(Struct):
    """User of a token, or of a forwarded request."""

    username: str = ""
    groups: list[str] = []
    uid: str = ""
    extra: dict[str, list[str]] = {}


class TokenStatus(Struct):
    """Result of a TokenReview."""

    authenticated: bool = False
    user: User = field(default_factory=User)
    audiences: list[str] = []


class TokenReview(Struct):
    """The answer to a token."""

    status: TokenStatus = field(default_factory=TokenStatus)


class AccessStatus(Struct):
    """Result of a SubjectAccessReview."""

    allowed: bool = False


class AccessReview(Struct):
    """Answer of the API server: is this account allowed to do this?"""

    status: AccessStatus = field(default_factory=AccessStatus)


def bearer_token(authorization: str) -> str:
    """Return the token of an `Authorization` header; empty without one, or if it is too long."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= TOKEN_LENGTH_MAX else ""


async def review_token(api: ApiClient, token: str, audiences: Sequence[str] = ()) -> TokenStatus:
    """Return the user of a token, which must be valid for one of these `audiences`.

    Raises:
        ApiError: the API server doesn't answer.
    """
    spec: dict[str, Any] = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    return (await api.post("/apis/authentication.k8s.io/v1/tokenreviews", body, TokenReview)).status


async def is_allowed(api: ApiClient, user: User, attributes: Mapping[str, Any]) -> bool:
    """Return True if a user has the right with these attributes, as a SubjectAccessReview states them.

    Raises:
        ApiError: the API server doesn't answer.
    """
    subject = {"user": user.username, "groups": user.groups, "uid": user.uid, "extra": user.extra}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return (await api.post(path, {**kind, "spec": {**subject, **attributes}}, AccessReview)).status.allowed
