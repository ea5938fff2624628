"""Owner of a sweep: its trials are submitted later, with the rights that its person has then."""

from collections.abc import Mapping
from typing import Any

from weir.local.server.auth import RoleLookup
from weir.local.server.authorization import Person, Role
from weir.local.server.problem_details import RequestRefused
from weir.store import Store


def owner_record(person: Person) -> dict[str, object]:
    """Return what is written down of a person, to act for them later."""
    return {
        "user": person.user,
        "is_admin": person.is_admin,
        "token": person.token,
        "uid": person.uid,
        "groups": sorted(person.groups),
        "subject": person.subject,
    }


def owner_now(owner: Mapping[str, Any], store: Store, roles_of: RoleLookup) -> Person:
    """Return the owner of a sweep with the rights of now.

    Raises:
        RequestRefused: the token that the sweep was made with was revoked.
    """
    user, is_admin, groups = str(owner["user"]), bool(owner["is_admin"]), frozenset(owner["groups"])
    roles: Mapping[str, Role] = {} if is_admin else roles_of(user, groups)
    number = owner.get("token")
    if number is not None:
        token = next((each for each in store.tokens() if each.id == number), None)
        if token is None:
            raise RequestRefused(403, f"The token of {user} that the sweep was made with was revoked.")
        is_admin = token.role == "admin"
        roles = {} if is_admin else dict.fromkeys(token.projects, Role[token.role.upper()])
    return Person(
        user, is_admin, roles, number, uid=owner.get("uid"), groups=groups, subject=str(owner["subject"])
    )
