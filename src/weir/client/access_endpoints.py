"""Calls about the access of people, of both clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from weir.client.calls import Call, LazyModule, RowPage, endpoint, form, nothing, row_list
from weir.client.path_parts import path_part, stated

if TYPE_CHECKING:
    from weir.api import answers as model
    from weir.api.access import WhoAmI
    from weir.client.submissions import Amount
else:
    model = LazyModule("weir.api.answers")

Kind = Literal["projects", "departments"]
_ALL = {"limit": "1000"}


class AccessEndpoints:
    """Calls about members and tokens."""

    @endpoint
    def whoami(self) -> Call[WhoAmI]:
        """Return the person of this client's requests: how they signed in, and their roles."""
        from weir.api.access import WhoAmI

        return Call("GET", "/whoami", form(WhoAmI))

    @row_list
    def members(self, name: str, *, kind: Kind = "projects") -> Call[RowPage[model.MemberRow]]:
        """Return the members of a project or department, its own first, then those of departments above."""
        return _members(name, kind)

    @endpoint
    def members_page(self, name: str, *, kind: Kind = "projects") -> Call[model.MemberPage]:
        """Return the members of a project or department, and how people get a role if not as members."""
        return _members(name, kind)

    @endpoint
    def set_member(
        self, name: str, member: str, *, role: model.ScopeRole = "member", kind: Kind = "projects"
    ) -> Call[model.MemberRow]:
        """Give a user, a `@group` or `@everyone` a role in a project or department."""
        return Call("PUT", _path(kind, name, member), form(model.MemberRow), body={"role": role})

    @endpoint
    def remove_member(self, name: str, member: str, *, kind: Kind = "projects") -> Call[None]:
        """Take the role of a user, a `@group` or `@everyone` away."""
        return Call("DELETE", _path(kind, name, member), nothing)

    @row_list
    def tokens(self) -> Call[RowPage[model.TokenRow]]:
        """Return all tokens, without their secrets."""
        return Call("GET", "/tokens", form(model.TokenPage), _ALL)

    @endpoint
    def make_token(
        self,
        user: str | None = None,
        *,
        role: str = "member",
        projects: Sequence[str] = (),
        label: str = "",
        expires: Amount | None = None,
    ) -> Call[model.TokenMade]:
        """Create a token, by default for oneself; only this answer shows its text.

        `expires` is its lifetime, such as "90d".
        """
        words = stated(user=user, label=label or None, expires=expires)
        body = {"role": role, "projects": [*projects], **words}
        return Call("POST", "/tokens", form(model.TokenMade), body=body)

    @endpoint
    def rotate_token(
        self, number: int | None = None, *, expires: Amount | None = None
    ) -> Call[model.TokenMade]:
        """Replace the text of a token, by default of the client's own; the old text becomes invalid."""
        path = f"/tokens/{'own' if number is None else number}/rotate"
        return Call("POST", path, form(model.TokenMade), body=stated(expires=expires))

    @endpoint
    def revoke_token(self, number: int) -> Call[None]:
        """Make a token invalid."""
        return Call("DELETE", f"/tokens/{number}", nothing)


def _path(kind: Kind, name: str, *member: str) -> str:
    return "/".join(("", kind, path_part(name), "members", *map(path_part, member)))


def _members(name: str, kind: Kind) -> Call[model.MemberPage]:
    return Call("GET", _path(kind, name), form(model.MemberPage))
