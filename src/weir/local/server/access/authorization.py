"""Authorization: the one place that decides about the rights of people.

A person has a role in scopes, which are nodes of the quota tree. A role on a department is valid for
everything below it; `weir.local.server.changes.memberships` computes the role in each scope. Administrators
may do everything.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Literal

from weir.local.server.http.problem_details import RequestRefused

SignedInBy = Literal["OpenID Connect", "token", "administrator's token", "Unix account"]


class Role(IntEnum):
    """A role in a scope; a higher one may do all that a lower one may."""

    VIEWER = 1
    MEMBER = 2
    LEAD = 3

    @property
    def word(self) -> str:
        """Return the role as people write it."""
        return self.name.lower()


RoleLookup = Callable[[str, frozenset[str]], Mapping[str, Role]]
"""Returns the role of a user with some groups in each scope."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Least role for an action on one's own work and on that of others; None: administrators only.

    `phrase` completes "you can't".
    """

    own: Role | None
    others: Role | None
    phrase: str


class Action(Enum):
    """Something that a person may do in a scope, with its rule."""

    VIEW = Rule(Role.VIEWER, Role.VIEWER, "see this")
    READ_OUTPUT = Rule(Role.VIEWER, Role.LEAD, "read the output of others")
    READ_ENVIRONMENT = Rule(Role.VIEWER, None, "read the environment of others")
    SUBMIT = Rule(Role.MEMBER, Role.MEMBER, "submit")
    CONTROL = Rule(Role.VIEWER, Role.LEAD, "change work of others")
    DELETE_SWEEP = Rule(Role.VIEWER, Role.LEAD, "delete sweeps of others")
    USE_SECRETS = Rule(Role.MEMBER, Role.MEMBER, "use its secrets")
    CHANGE_SECRET = Rule(Role.MEMBER, Role.LEAD, "change a secret that someone else set")
    CHANGE_TEMPLATES = Rule(Role.LEAD, Role.LEAD, "change its templates")
    NOTIFY = Rule(Role.LEAD, Role.LEAD, "set its notifications")
    SET_QUOTAS = Rule(Role.LEAD, Role.LEAD, "set quotas below it")
    MANAGE_MEMBERS = Rule(Role.LEAD, Role.LEAD, "change its members")
    EXCEED_LIMITS = Rule(None, None, "exceed the limits of a person")
    ADMINISTER = Rule(None, None, "administer the pool")


@dataclass(frozen=True, slots=True)
class Person:
    """A requester, and their role in each scope where they have one.

    `token`: the number of their token, with its label; None for a peer of a socket and the token in the home.
    `uid`, `groups`: of their Unix account, for a peer of a socket. `subject`: of a person who signed in with
    OpenID Connect; `groups` are those of the provider then.
    """

    user: str
    is_admin: bool
    roles: Mapping[str, Role] = field(default_factory=dict, hash=False)
    token: int | None = None
    label: str = ""
    uid: int | None = None
    groups: frozenset[str] = frozenset()
    subject: str = ""

    @property
    def signed_in_by(self) -> SignedInBy:
        """Return how the person signed in."""
        if self.subject:
            return "OpenID Connect"
        if self.token is not None:
            return "token"
        return "administrator's token" if self.uid is None else "Unix account"

    @property
    def scopes(self) -> frozenset[str]:
        """Return the departments and projects that the person may see, unless they may see all."""
        return frozenset(self.roles)


def may(person: Person, action: Action, scope: str | None = None, *, owner: str | None = None) -> bool:
    """Return True if a person may do something in a scope.

    Args:
        person: the requester.
        action: what to do.
        scope: the department or project; None for the pool as a whole.
        owner: the user whose work or secret it is; None for no one's.
    """
    if person.is_admin:
        return True
    role = None if scope is None else person.roles.get(scope)
    if role is None:
        return False
    rule = action.value
    least = rule.own if owner is not None and owner == person.user else rule.others
    return least is not None and role >= least


def require(person: Person, action: Action, scope: str | None = None, *, owner: str | None = None) -> None:
    """Check that a person may do something in a scope.

    Raises:
        RequestRefused: they may not; the sentence names the role that may.
    """
    if may(person, action, scope, owner=owner):
        return
    least = action.value.others
    role = None if scope is None else person.roles.get(scope)
    if least is None or scope is None:
        raise RequestRefused(403, "Only an administrator may do this.")
    if role is None:
        raise RequestRefused(403, f"You have no role in {scope[:80]}: its lead or an administrator adds you.")
    raise RequestRefused(
        403, f"As a {role.word} of {scope[:80]} you can't {action.value.phrase}: its {least.word}s can."
    )


def visible(person: Person, scopes: Iterable[str]) -> list[str]:
    """Return those of these departments and projects whose details a person may see."""
    return [scope for scope in scopes if may(person, Action.VIEW, scope)]
