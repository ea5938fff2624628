"""Reviews of the API server: the person of a kubeconfig, and their rights."""

from msgspec import Struct, field

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.paths import path_of

_REVIEWS = "authorization.k8s.io/v1"
_SELF = "authentication.k8s.io/v1"


class _AccessStatus(Struct):
    allowed: bool = False


class _AccessReview(Struct):
    status: _AccessStatus = field(default_factory=_AccessStatus)


class _UserInfo(Struct):
    username: str = ""


class _SelfStatus(Struct, rename="camel"):
    user_info: _UserInfo = field(default_factory=_UserInfo)


class _SelfReview(Struct):
    status: _SelfStatus = field(default_factory=_SelfStatus)


async def may(
    api: ApiClient, verb: str, group: str, resource: str, namespace: str, subresource: str = ""
) -> bool:
    """Return True if the person has a right in a namespace, or in all if it is empty.

    Raises:
        ApiError: the API server doesn't answer.
    """
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    attributes |= {"subresource": subresource} if subresource else {}
    body = {
        "apiVersion": _REVIEWS,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await api.post(path_of(_REVIEWS, "selfsubjectaccessreviews"), body, _AccessReview)
    return answer.status.allowed


async def user_of(api: ApiClient) -> str:
    """Return the person's user name at the API server; empty if it is unknown."""
    try:
        return await reviewed_user(api)
    except ApiRefused:
        return ""


async def reviewed_user(api: ApiClient) -> str:
    """Return the person's user name at the API server.

    Raises:
        ApiError: the API server doesn't know the person, or doesn't answer.
    """
    body = {"apiVersion": _SELF, "kind": "SelfSubjectReview"}
    answer = await api.post(path_of(_SELF, "selfsubjectreviews"), body, _SelfReview)
    return answer.status.user_info.username
