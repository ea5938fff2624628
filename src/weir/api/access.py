"""Answers about the access of people: members and tokens."""

from typing import Literal

from pydantic import Field

from weir.api.workload_list import Answer, Page, PointInTime, Shown

Role = Literal["admin", "lead", "member", "viewer"]
ScopeRole = Literal["lead", "member", "viewer"]


class MemberRow(Answer):
    """A member of a department or project: a user, a @group or @everyone.

    `scope` is where the role was given: the department or project itself, or a department above it.
    """

    member: str
    role: Shown[ScopeRole]
    scope: str


class SignInWays(Answer):
    """Sign-in to a pool from elsewhere. Its fields are empty where the pool has no OpenID Connect.

    `client_id` is the client of `weir login`; `dashboard` is the path where a browser begins. `links_only`:
    the dashboard of a cluster, which knows no tokens.
    """

    issuer: str = ""
    client_id: str | None = None
    scopes: str = ""
    dashboard: str = ""
    links_only: bool = False


class WhoAmI(Answer):
    """The person of a request: how they signed in, and their role in each department and project."""

    user: str
    signed_in_by: str
    is_admin: bool
    roles: dict[str, Shown[ScopeRole]] = Field(default={})
    groups: list[str] = Field(default=[])


class MemberPage(Page):
    """Page of the members of a department or project.

    `note` says how people get a role in a pool where users of the machine can't be members.
    """

    items: list[MemberRow]
    note: str | None = None


class TokenMade(Answer):
    """A new token; only this answer shows its text."""

    id: int
    token: str
    user: str
    role: Shown[Role]
    projects: list[str] = Field(default=[])
    label: str = ""
    expires_s: PointInTime | None = None


class TokenRow(Answer):
    """A token in a list, without its secret."""

    id: int
    user: str
    role: Shown[Role]
    projects: list[str] = Field(default=[])
    created_s: PointInTime | None = None  # creation of the present text
    label: str = ""
    expires_s: PointInTime | None = None
    used_s: PointInTime | None = None  # last use, to the minute


class TokenPage(Page):
    """A page of tokens."""

    items: list[TokenRow]
