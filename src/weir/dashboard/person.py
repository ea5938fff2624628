"""Person of a session, in the form that the page gets."""

from typing import Annotated

from pydantic import Field

from weir.api.answers import Answer
from weir.scenario_io.specs import Entry


class SignInAsked(Entry):
    """A token, or the code of a one-time link."""

    token: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    code: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class ClusterScope(Answer):
    """Cluster of a page, within the rights of its person."""

    name: str
    namespace: str | None  # the namespace of the page; None: all
    controls: list[str]  # namespaces in which the person may stop and suspend Jobs; "*": all
    chooses: bool = False  # True: the person chooses a namespace; "" until then


class DashboardPerson(Answer):
    """The signed-in person, and their rights."""

    user: str
    is_admin: bool
    projects: list[str]  # projects in which the person may submit
    roles: dict[str, str]  # by department and project
    proof: str | None = None  # secret that the page adds to each request; sent once
    cluster: ClusterScope | None = None  # None for a pool on one machine
