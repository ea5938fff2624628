"""Policies for the person who made an object: no one states another person than themselves, or changes it.

The webhook writes the person on new objects. What is below a controller has the word of its template, so the
templates of Jobs count too. Controllers write what they were given: they are accounts of the system, and of
other namespaces.
"""

from collections.abc import Iterator
from typing import Any

from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.install.policies.expressions import Policy, Refusal, match_rule, quoted, refusing_policy
from weir.kubernetes.translate.annotations import USER
from weir.kubernetes.translate.kind_table import built_in

_METADATA = "{object}.metadata"
_TEMPLATE = "{object}.spec.?jobTemplate.?metadata"
_USER = "request.userInfo.username"
_OWN_ACCOUNTS = "'system:serviceaccount:' + request.?namespace.orValue('') + ':'"
_NO_CONTROLLER = f"!{_USER}.startsWith('system:') || {_USER}.startsWith({_OWN_ACCOUNTS})"


def person_policies() -> Iterator[Policy]:
    """Return the policies for objects other than pods, and for the templates in schedules and sweeps."""
    owners = sorted({(kind.group, kind.resource) for kind in built_in()} | {("batch", "cronjobs")})
    changes = [_writes(GROUP, "sweeps")]
    changes += [
        _writes(group, resource, f"{resource}/status")
        for group, resource in owners
        if (group, resource) != ("", "pods")
    ]
    yield refusing_policy("user", changes, forged_person())
    templates = [_writes("batch", "cronjobs"), _writes(GROUP, "sweeps")]
    yield refusing_policy("template-user", templates, forged_person(_TEMPLATE))


def forged_person(metadata: str = _METADATA) -> Refusal:
    """Refuse another person than the one who makes the request."""
    forged = " || ".join(_is_forged(metadata, part) for part in ("annotations", "labels"))
    return Refusal(
        f"({_NO_CONTROLLER}) && ({forged})",
        f"{USER} names the creator, and Weir writes it: leave it out, or as it is.",
        f"'{USER} names the creator, and you are ' + request.userInfo.username + "
        "(request.operation == 'CREATE' ? ': leave it out' : ': leave it as it is')",
    )


def _is_forged(metadata: str, part: str) -> str:
    """Return an expression: the person differs from the one before, and isn't the requester."""
    key = f"{metadata}.?{part}[?{quoted(USER)}]"
    now, before = (key.format(object=variable) for variable in ("object", "oldObject"))
    was = f"(request.operation == 'UPDATE' ? {before} : optional.none())"
    return f"({now} != {was} && {now}.orValue('') != {_USER})"


def _writes(group: str, *resources: str) -> dict[str, Any]:
    return match_rule(group, ["CREATE", "UPDATE"], resources) | {"apiVersions": ["*"]}
