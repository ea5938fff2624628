"""Memberships: roles of people by their user name and their Unix groups, and changes of them.

A role on a department holds for everything below it. A person has the highest of their roles in each scope.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping

from weir.local.server.access.account_mode import INSTALL, OIDC_PREFIX, AccountMode
from weir.local.server.access.authorization import Action, Person, Role, require
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.queue_lookup import no_such_queue
from weir.model.queues import Queue
from weir.store.records import MembershipRecord, ScopeRole

EVERYONE = "@everyone"
"""Subject of a role that every account of the machine has."""
PERSONS_MAX = 4096
"""Persons whose roles are remembered."""
_SUBJECT = re.compile(r"@?(oidc:)?[^\s@/:-][^\s/:]{0,254}")
Subject = tuple[str, str]
"""Kind and name of a subject."""


def effective_roles(
    memberships: Iterable[MembershipRecord], user: str, groups: frozenset[str], queues: Iterable[Queue]
) -> dict[str, Role]:
    """Return the role of a user with some groups in each department and project.

    `queues` has parents before children.
    """
    direct: dict[str, Role] = {}
    has_account = not user.startswith(OIDC_PREFIX)
    for membership in memberships:
        is_theirs = (
            (membership.kind == "everyone" and has_account)
            or (membership.kind == "user" and membership.name == user)
            or (membership.kind == "group" and membership.name in groups)
        )
        if is_theirs:
            role = Role[membership.role.upper()]
            direct[membership.scope] = max(role, direct.get(membership.scope, role))
    roles: dict[str, Role] = {}
    if not direct:
        return roles
    for queue in queues:
        above = None if queue.parent is None else roles.get(queue.parent)
        candidates = [role for role in (direct.get(queue.name), above) if role is not None]
        if candidates:
            roles[queue.name] = max(candidates)
    return roles


def parse_subject(text: str) -> Subject:
    """Return kind and name of a subject: `mia`, `@group` or `@everyone`.

    Raises:
        RequestRefused: the text is no subject.
    """
    if text == EVERYONE:
        return "everyone", ""
    if _SUBJECT.fullmatch(text) is None or not text.isprintable():
        message = (
            f"{text[:80]!r} is no member: write a user such as mia, a group such as @vision, or {EVERYONE}"
        )
        raise RequestRefused(422, message, [{"field": "member", "message": message}])
    return ("group", text[1:]) if text.startswith("@") else ("user", text)


def subject_text(membership: MembershipRecord) -> str:
    """Return the subject of a membership as people write it."""
    if membership.kind == "everyone":
        return EVERYONE
    return f"@{membership.name}" if membership.kind == "group" else membership.name


class Memberships:
    """Answers and changes the roles of a pool's members. Belongs to the event loop."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._seen: tuple[object, object] = (None, None)
        self._roles: dict[tuple[str, frozenset[str]], Mapping[str, Role]] = {}

    def roles_of(self, user: str, groups: frozenset[str]) -> Mapping[str, Role]:
        """Return the role of a person in each department and project where they have one."""
        memberships, queues = self._pool.store.memberships, self._pool.inventory.queues
        if self._seen[0] is not memberships or self._seen[1] is not queues:
            self._seen = (memberships, queues)
            self._roles.clear()
        key = (user, groups)
        roles = self._roles.get(key)
        if roles is None:
            if len(self._roles) >= PERSONS_MAX:
                self._roles.clear()
            roles = self._roles[key] = effective_roles(memberships, user, groups, queues)
        return roles

    def members(self, scope: str, is_project: bool, person: Person) -> list[MembershipRecord]:
        """Return the memberships of a department or project, its own first, then those of departments above.

        Raises:
            RequestRefused: there is no such scope, or the person may not see it.
        """
        self._check_scope(scope, is_project)
        require(person, Action.VIEW, scope)
        queues, memberships = self._pool.inventory.queues_by_name, []
        current: str | None = scope
        while current is not None:
            memberships += [
                membership for membership in self._pool.store.memberships if membership.scope == current
            ]
            current = queues[current].parent
        return memberships

    def note(self, scope: str, is_project: bool) -> str | None:
        """Return a sentence on roles in a scope if users of the machine can't be members; else None."""
        accounts = self._pool.accounts
        if accounts.mode is AccountMode.PERSONAL:
            return self._personal
        if accounts.mode is AccountMode.UNIX_ACCOUNTS:
            return None
        project = scope if is_project else "PROJECT"
        tokens = f"`weir token create USER -p {project} --role ROLE`"
        if not accounts.oidc:
            return f"People of this pool have tokens: {tokens} makes one, and `weir token list` shows them."
        add = f"`weir {'project' if is_project else 'department'} members add {scope} {OIDC_PREFIX}USER`"
        return f"{add} adds a person of the identity provider; {tokens} makes a token for others."

    @property
    def _personal(self) -> str:
        return f"This pool is personal: it serves {self._pool.accounts.owner} alone. {INSTALL}."

    async def set(
        self, scope: str, is_project: bool, text: str, role: ScopeRole, person: Person
    ) -> MembershipRecord:
        """Give a user, a group or everyone a role.

        Raises:
            RequestRefused: the person may not, or there is no such scope, user or group.
        """
        self._check_scope(scope, is_project)
        require(person, Action.MANAGE_MEMBERS, scope)
        kind, name = parse_subject(text)
        await self._check_subject(kind, name)
        membership = MembershipRecord(scope, kind, name, role)  # type: ignore[arg-type]  # of parse_subject
        await asyncio.to_thread(self._pool.store.set_membership, membership)
        self._add_event(f"{person.user} makes {text} a {role} of {scope}.", scope, person)
        return membership

    async def remove(self, scope: str, is_project: bool, text: str, person: Person) -> None:
        """Remove a role.

        Raises:
            RequestRefused: the person may not, or there is no such membership.
        """
        self._check_scope(scope, is_project)
        require(person, Action.MANAGE_MEMBERS, scope)
        kind, name = parse_subject(text)
        if not await asyncio.to_thread(self._pool.store.delete_membership, scope, kind, name):
            noun = "project" if is_project else "department"
            members = f"`weir {noun} members {scope}` shows its members"
            raise RequestRefused(404, f"{text} is no member of {scope} itself; {members}.")
        self._add_event(f"{person.user} removes {text} from {scope}.", scope, person)

    def _check_scope(self, scope: str, is_project: bool) -> None:
        queue = self._pool.inventory.queues_by_name.get(scope)
        if queue is None or queue.is_project != is_project:
            raise no_such_queue("project" if is_project else "department", scope)

    async def _check_subject(self, kind: str, name: str) -> None:
        """Refuse a subject that this pool can't know."""
        accounts = self._pool.accounts
        if accounts.mode is AccountMode.PERSONAL:
            raise RequestRefused(409, self._personal)
        if name.startswith(OIDC_PREFIX):
            if not accounts.oidc:
                raise RequestRefused(422, f"{name[:80]}: this pool has no sign-in with OpenID Connect.")
            return
        if accounts.mode is AccountMode.SHARED_ACCOUNT:
            raise RequestRefused(
                409, "People of this pool have tokens: `weir token create USER -p PROJECT --role ROLE`."
            )
        if kind == "user" and await accounts.unix.get(name) is None:
            raise RequestRefused(422, f"There is no user {name[:80]} on this machine: check the name.")
        if kind == "group" and not await accounts.unix.has_group(name):
            raise RequestRefused(422, f"There is no Unix group {name[:80]} on this machine: check the name.")

    def _add_event(self, sentence: str, scope: str, person: Person) -> None:
        project = scope if self._pool.inventory.queues_by_name[scope].is_project else None
        self._pool.add_pool_event("queue", sentence, project=project, user=person.user)
