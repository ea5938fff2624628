"""Requests to a pool, with the fields of scenario files."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from weir.api.answers import Role, ScopeRole, Type
from weir.api.sessions import SessionKind
from weir.api.short_forms import gathered, words_of
from weir.scenario_io.scalars import ClassPriority, Indices, Moment, Name, Span
from weir.scenario_io.specs import Count, Entry, PodsEntry, TopologyRequestEntry

Pull = Literal["missing", "always", "never"]
ContainerRuntime = Literal["podman", "docker"]
Word = Annotated[str, Field(max_length=131_072)]


class Submission(Entry):
    """A workload to be queued. Every pod of it runs `command`.

    Short ways to write it are in `weir.api.short_forms`.
    """

    project: Name
    command: Annotated[list[Word], Field(min_length=1, max_length=4096), BeforeValidator(words_of)]
    name: Name | None = None
    type: Type = "train"
    priority: ClassPriority | None = None
    preemptible: bool | None = None
    min_pods: Count | None = None
    max_runtime: Span | None = None
    idle_limit: Span | None = None
    grace: Span | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    array: Indices | None = None
    begin: Moment | None = None
    after: list[Name] = Field(default=[])  # workloads that have to start before it
    after_ok: list[Name] = Field(default=[])  # workloads that have to succeed before it
    after_not_ok: list[Name] = Field(default=[])  # workloads that have to fail or be stopped before it
    after_any: list[Name] = Field(default=[])  # workloads that have to end before it
    topology: TopologyRequestEntry | None = None
    env: dict[str, Word] = Field(default={})
    # Names of the project's secrets, by environment variable
    secrets: dict[str, Name] = Field(default={}, max_length=200)
    directory: str | None = None
    session: SessionKind | None = None  # kind of session in the browser; `command` starts its program
    image: Annotated[str, Field(max_length=512)] | None = None
    pull: Pull | None = None  # pull policy of the image; None: if it is missing
    container_runtime: ContainerRuntime | None = None
    pods: list[PodsEntry] = Field(default=[PodsEntry()], min_length=1, max_length=64)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, fields: Any) -> Any:
        return gathered(fields) if isinstance(fields, dict) else fields


class TokenAsked(Entry):
    """A token for a person: for an administrator, or for a member of some projects.

    `user` is the person, by default the requester.
    """

    user: Name | None = None
    role: Role = "member"
    projects: list[Name] = Field(default=[])
    label: Annotated[str, Field(max_length=200)] = ""
    expires: Span | None = None


class TokenRotated(Entry):
    """Request for a new text of a token. `expires` is its lifetime; by default that of the old text."""

    expires: Span | None = None


class MemberAsked(Entry):
    """Role of a member of a department or project."""

    role: ScopeRole = "member"


class PriorityAsked(Entry):
    """Another priority for a workload."""

    priority: ClassPriority


class ExtensionAsked(Entry):
    """Time for which the idle rules leave a workload alone."""

    duration: Span


class SecretAsked(Entry):
    """Value of a secret."""

    value: Annotated[str, Field(min_length=1, max_length=65_536)]
