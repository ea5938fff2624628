"""Refusals of the API server's RBAC in the words of Weir's users."""

import re

FORBIDDEN = 403
"""Status of a refusal."""
_REFUSED = re.compile(
    r'User "(?P<user>.*)" cannot (?:get|list) resource "(?P<resource>[a-z/]+)" in API group '
    r'"(?:query\.)?weir\.dev" (?:in the namespace "(?P<namespace>[^"]*)"|at the cluster scope)'
)


def missing_right(text: str) -> str | None:
    """Return the missing right to read Weir's API, with a remedy; None for refusals of other requests."""
    match = _REFUSED.search(text)
    if match is None:
        return None
    user, resource, namespace = match.group("user", "resource", "namespace")
    if namespace is None:
        return (
            f"{user} may not read the {resource} of the whole cluster: this takes the ClusterRole weir-view "
            "by a ClusterRoleBinding."
        )
    return (
        f"{user} may not read {resource} in the namespace {namespace}: ask for the ClusterRole weir-view in "
        "it, or choose your namespace: kubectl config set-context --current --namespace NAMESPACE."
    )
