"""Every question a pool answers, as data: the method, the path, and how the answer is read.

The two clients differ only in how a call is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from weir.client.errors import PoolError, Refused

if TYPE_CHECKING:
    from weir.api import answers as model
    from weir.api.submissions import Submission
    from weir.client.submissions import Amount

Answered = TypeVar("Answered")
Form = TypeVar("Form", bound=BaseModel)
By = Literal["project", "department", "user", "type", "node"]
Kind = Literal["projects", "departments"]
Act = Literal["stop", "suspend", "resume", "rerun"]

PAGE = 500
"""Asked for at a time when a list is walked through."""
_SAID_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class Call(Generic[Answered]):
    """One request. `reads` makes the answer of a successful response's bytes."""

    method: str
    path: str
    reads: Callable[[bytes], Answered]
    params: Mapping[str, str] = field(default_factory=dict)
    body: object = None


def pool_status() -> Call[model.PoolStatus]:
    """The pool in one glance."""
    from weir.api.answers import PoolStatus

    return Call("GET", "/status", _form(PoolStatus))


def submit(
    submission: Submission | Mapping[str, Any] | None, words: Mapping[str, Any]
) -> Call[model.WorkloadDetail]:
    """Queue a workload.

    Raises:
        Refused: it can't be used as it is.
    """
    from weir.api.answers import WorkloadDetail
    from weir.client.submissions import written

    return Call("POST", "/workloads", _form(WorkloadDetail), body=written(submission, words))


def workloads(
    *,
    project: str | None,
    status: Sequence[str],
    kind: str | None,
    user: str | None,
    query: str | None,
    ended: bool,
    limit: int,
    after: str | None,
) -> Call[model.WorkloadPage]:
    """A page of workloads, newest first."""
    from weir.api.workload_list import WorkloadPage

    params = _params(
        project=project, status=",".join(status), type=kind, user=user, q=query, limit=limit, after=after
    )
    return Call("GET", "/workloads", _form(WorkloadPage), params | ({"all": "true"} if ended else {}))


def workload(name: str) -> Call[model.WorkloadDetail]:
    """All that is known of one."""
    from weir.api.answers import WorkloadDetail

    return Call("GET", f"/workloads/{_part(name)}", _form(WorkloadDetail))


def why(name: str) -> Call[model.WhyAnswer]:
    """Why it waits."""
    from weir.api.answers import WhyAnswer

    return Call("GET", f"/workloads/{_part(name)}/why", _form(WhyAnswer))


def act(name: str, act: Act) -> Call[model.WorkloadRow]:
    """Stop, suspend, resume or rerun one."""
    from weir.api.workload_list import WorkloadRow

    return Call("POST", f"/workloads/{_part(name)}/{act}", _form(WorkloadRow))


def logs(name: str, *, pod: str | None, start: int | None, tail: int | None, follow: bool) -> Call[None]:
    """The output of a pod; read as it comes."""
    params = _params(pod=pod, start=start, tail=tail)
    return Call(
        "GET", f"/workloads/{_part(name)}/logs", _nothing, params | ({"follow": "true"} if follow else {})
    )


def queues(kind: Kind) -> Call[model.QueuePage]:
    """All projects, or all departments."""
    from weir.api.answers import QueuePage

    return Call("GET", f"/{kind}", _form(QueuePage), {"limit": "1000"})


def queue(kind: Kind, name: str) -> Call[model.QueueRow]:
    """One of them."""
    from weir.api.answers import QueueRow

    return Call("GET", f"/{kind}/{_part(name)}", _form(QueueRow))


def set_queue(kind: Kind, name: str, words: Mapping[str, Any]) -> Call[model.QueueRow]:
    """Make or change one."""
    from weir.api.answers import QueueRow

    return Call("PUT", f"/{kind}/{_part(name)}", _form(QueueRow), body={**words, "name": name})


def delete_queue(kind: Kind, name: str) -> Call[model.QueueDeleted]:
    """Delete one; what went with it."""
    from weir.api.answers import QueueDeleted

    def read(raw: bytes) -> QueueDeleted:
        if not raw:  # a cluster, or an older server, says no more
            return QueueDeleted(name=name)
        return QueueDeleted.model_validate_json(raw)

    return Call("DELETE", f"/{kind}/{_part(name)}", read)


def nodes() -> Call[model.NodePage]:
    """All machines."""
    from weir.api.answers import NodePage

    return Call("GET", "/nodes", _form(NodePage), {"limit": "1000"})


def events(
    *, workload: str | None, project: str | None, kind: str | None, limit: int, after: str | None
) -> Call[model.EventPage]:
    """A page of what happened, newest first."""
    from weir.api.answers import EventPage

    params = _params(workload=workload, project=project, kind=kind, limit=limit, after=after)
    return Call("GET", "/events", _form(EventPage), params)


def stream() -> Call[None]:
    """What changes, as it does."""
    return Call("GET", "/stream", _nothing)


def usage(*, since_s: float | None, until_s: float | None, by: By) -> Call[model.UsageReport]:
    """What was used."""
    from weir.api.answers import UsageReport

    return Call("GET", "/usage", _form(UsageReport), _params(since=since_s, until=until_s, by=by))


def snapshot() -> Call[str]:
    """A scenario that replays the next decision."""
    return Call("GET", "/snapshot", lambda raw: raw.decode("utf-8"))


def checkpoints() -> Call[model.CheckpointPage]:
    """Return the call for all checkpoint directories."""
    from weir.api.answers import CheckpointPage

    return Call("GET", "/checkpoints", _form(CheckpointPage), {"limit": "1000"})


def tokens() -> Call[model.TokenPage]:
    """All tokens, without their secrets."""
    from weir.api.answers import TokenPage

    return Call("GET", "/tokens", _form(TokenPage), {"limit": "1000"})


def make_token(
    user: str, role: str, projects: Sequence[str], label: str, expires: Amount | None
) -> Call[model.TokenMade]:
    """A new token."""
    from weir.api.answers import TokenMade

    asked: dict[str, Any] = {"user": user, "role": role, "projects": list(projects)}
    if label:
        asked["label"] = label
    if expires is not None:
        asked["expires"] = expires
    return Call("POST", "/tokens", _form(TokenMade), body=asked)


def rotate_token(number: int | None, expires: Amount | None) -> Call[model.TokenMade]:
    """Another text for a token; for that which is asked with, if no number is given."""
    from weir.api.answers import TokenMade

    body = {} if expires is None else {"expires": expires}
    path = f"/tokens/{'own' if number is None else number}/rotate"
    return Call("POST", path, _form(TokenMade), body=body)


def audit(*, limit: int, user: str | None, outcome: str | None, path: str | None) -> Call[model.AuditPage]:
    """The newest lines of the audit log."""
    from weir.api.answers import AuditPage

    params = _params(limit=limit, user=user, outcome=outcome, path=path)
    return Call("GET", "/audit", _form(AuditPage), params)


def revoke_token(number: int) -> Call[None]:
    """A token is worth nothing from now on."""
    return Call("DELETE", f"/tokens/{number}", _nothing)


def secrets(project: str) -> Call[model.SecretPage]:
    """Names of a project's secrets."""
    from weir.api.answers import SecretPage

    return Call("GET", f"/projects/{_part(project)}/secrets", _form(SecretPage))


def set_secret(project: str, name: str, value: str) -> Call[model.SecretRow]:
    """Set one."""
    from weir.api.answers import SecretRow

    path = f"/projects/{_part(project)}/secrets/{_part(name)}"
    return Call("PUT", path, _form(SecretRow), body={"value": value})


def delete_secret(project: str, name: str) -> Call[None]:
    """Delete one."""
    return Call("DELETE", f"/projects/{_part(project)}/secrets/{_part(name)}", _nothing)


def refusal(status: int, raw: bytes) -> Refused:
    """What an answer that is no success says."""
    from weir.api.answers import Problem

    try:
        return Refused(Problem.model_validate_json(raw))
    except ValidationError:
        said = raw[:_SAID_LENGTH_MAX].decode("utf-8", "replace")
        words = " ".join(said.split()) or f"the pool answered {status} and said no more"
        return Refused(Problem(title="The pool refused", status=status, detail=words))


def _form(form: type[Form]) -> Callable[[bytes], Form]:
    def read(raw: bytes) -> Form:
        try:
            return form.model_validate_json(raw)
        except ValidationError as error:
            raise PoolError(
                "What answered is no pool of this version: check its address, or bring both to one version."
            ) from error

    return read


def _nothing(_raw: bytes) -> None:
    return None


def _part(name: str) -> str:
    return quote(name, safe="")


def _params(**values: str | float | None) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None and value != ""}
