"""Every call of a pool's REST interface, written once for both clients.

A method of `Endpoints` returns a call: the method, the path, and how the answer is read. Its decorator makes
`Pool` return the answer, and `AsyncPool` return a coroutine that does so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from weir.client.access_endpoints import AccessEndpoints
from weir.client.calls import Call, LazyModule, RowPage, endpoint, form, nothing, row_iterator, row_list
from weir.client.node_endpoints import NodeEndpoints
from weir.client.notification_endpoints import NotificationEndpoints
from weir.client.path_parts import params, path_part
from weir.client.report_endpoints import ReportEndpoints
from weir.client.schedule_endpoints import ScheduleEndpoints
from weir.client.session_endpoints import SessionEndpoints
from weir.client.sweep_endpoints import SweepEndpoints
from weir.client.template_endpoints import TemplateEndpoints

if TYPE_CHECKING:
    from weir.api import answers as model
    from weir.api import workload_list as lists
    from weir.api.decision import DecisionAnswer
    from weir.api.previews import SubmissionPreview
    from weir.api.series import SeriesAnswer
    from weir.api.submissions import Submission
    from weir.client.address import Address
    from weir.client.submissions import SubmissionFields
else:
    model = LazyModule("weir.api.answers")
    lists = LazyModule("weir.api.workload_list")  # a list of workloads needs no other answers

Kind = Literal["projects", "departments"]
Action = Literal["stop", "suspend", "resume", "rerun"]
_ROWS_A_PAGE = 500
_NONE: Mapping[str, Any] = MappingProxyType({})
_ALL = {"limit": "1000"}


class WorkloadFilterFields(TypedDict, total=False):
    """Filter of a list of workloads.

    `query` is part of a name; `ended` includes ended workloads; `since_s` is the earliest submission.
    """

    project: str | None
    status: Sequence[str]
    type: str | None
    user: str | None
    query: str | None
    ended: bool
    since_s: float | None


class EventFilterFields(TypedDict, total=False):
    """Filter of a list of events."""

    workload: str | None
    project: str | None
    kind: str | None


class Endpoints(
    NodeEndpoints,
    AccessEndpoints,
    NotificationEndpoints,
    ReportEndpoints,
    SessionEndpoints,
    SweepEndpoints,
    ScheduleEndpoints,
    TemplateEndpoints,
):
    """Makes the calls of the REST interface for both clients."""

    address: Address

    # Workloads

    @endpoint
    def submit(
        self, submission: Submission | Mapping[str, Any] | None = None, /, **words: Unpack[SubmissionFields]
    ) -> Call[model.WorkloadDetail]:
        """Queue a workload: `pool.submit(project="vision", gpus=2, command=["python", "train.py"])`.

        Without `directory` a workload of a pool on this machine starts in the current directory.

        Raises:
            Refused: the submission is invalid.
        """
        from weir.client.submissions import written

        body = written(submission, words)
        if not body.get("directory") and self.address.is_loopback:
            body["directory"] = str(Path.cwd())
        return Call("POST", "/workloads", form(model.WorkloadDetail), body=body)

    @endpoint
    def submit_batch(
        self, workloads: Sequence[Submission | Mapping[str, Any]], *, defaults: Mapping[str, Any] = _NONE
    ) -> Call[model.WorkloadPage]:
        """Queue several workloads, all or none. Their conditions may name each other.

        `defaults` are fields of all workloads that don't state them.
        """
        from weir.client.submissions import as_written

        body = {"defaults": dict(defaults), "workloads": [as_written(workload) for workload in workloads]}
        return Call("POST", "/workloads:batch", form(lists.WorkloadPage), body=body)

    @endpoint
    def preview(self, submission: Submission | Mapping[str, Any]) -> Call[SubmissionPreview]:
        """Return the outcome of a submission: a start, workloads that would stop, or the reason to wait."""
        from weir.api.previews import SubmissionPreview
        from weir.client.submissions import written

        return Call("POST", "/previews", form(SubmissionPreview), body=written(submission, {}))

    @endpoint
    def page(
        self, *, limit: int = 100, after: str | None = None, **filters: Unpack[WorkloadFilterFields]
    ) -> Call[model.WorkloadPage]:
        """Return a page of workloads, newest first."""
        return _workloads(limit, after, filters)

    @row_iterator
    def list(self, **filters: Unpack[WorkloadFilterFields]) -> Call[RowPage[model.WorkloadRow]]:
        """Iterate over the workloads, newest first."""
        return _workloads(_ROWS_A_PAGE, None, filters)

    @endpoint
    def get(self, name: str) -> Call[model.WorkloadDetail]:
        """Return all details of a workload: the newest of that name."""
        return Call("GET", f"/workloads/{path_part(name)}", form(model.WorkloadDetail))

    @endpoint
    def why(self, name: str, *, wait_s: float = 10.0) -> Call[model.WhyAnswer]:
        """Return the reason of a pending workload, its queue's numbers, and changes that would let it start.

        `wait_s` is the time to wait for suggestions. While an answer is `unfinished`, a later one has them.
        """
        return Call("GET", f"/workloads/{path_part(name)}/why", form(model.WhyAnswer), params(wait=wait_s))

    @endpoint
    def decision(self, name: str) -> Call[DecisionAnswer]:
        """Return how the nodes score for a workload, and the victims that it may evict."""
        from weir.api.decision import DecisionAnswer

        return Call("GET", f"/workloads/{path_part(name)}/decision", form(DecisionAnswer))

    @endpoint
    def stop(self, name: str) -> Call[model.WorkloadRow]:
        """End a workload for good."""
        return _act(name, "stop")

    @endpoint
    def suspend(self, name: str) -> Call[model.WorkloadRow]:
        """Stop a workload until it is resumed."""
        return _act(name, "suspend")

    @endpoint
    def resume(self, name: str) -> Call[model.WorkloadRow]:
        """Let a suspended workload start again."""
        return _act(name, "resume")

    @endpoint
    def rerun(self, name: str, *, failed: bool = False) -> Call[model.WorkloadRow]:
        """Submit an ended workload again, unchanged; with `failed` only the failed indices of an array."""
        return _act(name, "rerun", failed="true" if failed else None)

    @endpoint
    def series(self, name: str) -> Call[SeriesAnswer]:
        """Return the curves of a workload: its reports and its usage over its run time."""
        from weir.api.series import SeriesAnswer

        return Call("GET", f"/workloads/{path_part(name)}/series", form(SeriesAnswer))

    @endpoint
    def set_priority(self, name: str, priority: int | str) -> Call[model.WorkloadRow]:
        """Change the priority of a workload that isn't over."""
        path = f"/workloads/{path_part(name)}/priority"
        return Call("POST", path, form(lists.WorkloadRow), body={"priority": priority})

    @endpoint
    def extend(self, name: str, duration: int | float | str) -> Call[model.WorkloadRow]:
        """Keep the idle rules away from a workload for this long from now, such as `2h`."""
        path = f"/workloads/{path_part(name)}/extend"
        return Call("POST", path, form(lists.WorkloadRow), body={"duration": duration})

    # The quota tree

    @row_list
    def projects(self, *, may_submit: bool = False) -> Call[RowPage[model.QueueRow]]:
        """Return projects with their quota and their usage: all, or those that you may submit to."""
        return _queues("projects", {"may_submit": "true"} if may_submit else {})

    @endpoint
    def project(self, name: str) -> Call[model.QueueDetail]:
        """Return a project."""
        return _queue("GET", "projects", name)

    @endpoint
    def set_project(
        self, name: str, /, *, version: str | None = None, **words: Any
    ) -> Call[model.QueueDetail]:
        """Create or change a project: `department`, `quota`, `limit`, `weight`, `priority`.

        With the `version` of a row it is refused if others have changed the project since.
        """
        return _queue("PUT", "projects", name, {**words, "name": name}, version)

    @endpoint
    def delete_project(self, name: str) -> Call[model.QueueDeleted]:
        """Delete a project; return the tokens and secrets that were deleted with it."""
        return _delete_queue("projects", name)

    @row_list
    def secrets(self, project: str) -> Call[RowPage[model.SecretRow]]:
        """Return the names of a project's secrets. Nothing returns their values."""
        return Call("GET", f"/projects/{path_part(project)}/secrets", form(model.SecretPage))

    @endpoint
    def set_secret(self, project: str, name: str, value: str) -> Call[model.SecretRow]:
        """Set a secret. Workloads of the project that name it get this value when they start."""
        return Call("PUT", _secret(project, name), form(model.SecretRow), body={"value": value})

    @endpoint
    def delete_secret(self, project: str, name: str) -> Call[None]:
        """Delete a secret and suspend the pending workloads that name it."""
        return Call("DELETE", _secret(project, name), nothing)

    @row_list
    def departments(self) -> Call[RowPage[model.QueueRow]]:
        """Return all departments with their quota and their usage."""
        return _queues("departments")

    @endpoint
    def department(self, name: str) -> Call[model.QueueDetail]:
        """Return a department."""
        return _queue("GET", "departments", name)

    @endpoint
    def set_department(
        self, name: str, /, *, version: str | None = None, **words: Any
    ) -> Call[model.QueueDetail]:
        """Create or change a department: `parent`, `quota`, `limit`, `weight`, `priority`, and `version`."""
        return _queue("PUT", "departments", name, {**words, "name": name}, version)

    @endpoint
    def delete_department(self, name: str) -> Call[model.QueueDeleted]:
        """Delete a department."""
        return _delete_queue("departments", name)

    # The pool

    @endpoint
    def status(self) -> Call[model.PoolStatus]:
        """Return a summary of the pool."""
        return Call("GET", "/status", form(model.PoolStatus))

    @endpoint
    def events_page(
        self, *, limit: int = 100, after: str | None = None, **filters: Unpack[EventFilterFields]
    ) -> Call[model.EventPage]:
        """Return a page of events, newest first."""
        return _events(limit, after, filters)

    @row_iterator
    def events(self, **filters: Unpack[EventFilterFields]) -> Call[RowPage[model.EventRow]]:
        """Iterate over the events, newest first."""
        return _events(_ROWS_A_PAGE, None, filters)

    @endpoint
    def snapshot(self, *, workloads: bool = True) -> Call[str]:
        """Return a scenario file that replays the next decision, or one of the cluster alone."""
        chosen = {} if workloads else {"workloads": "false"}
        return Call("GET", "/snapshot", bytes.decode, chosen)

    @row_list
    def checkpoints(self) -> Call[RowPage[model.CheckpointRow]]:
        """Return all checkpoint directories."""
        return Call("GET", "/checkpoints", form(model.CheckpointPage), _ALL)

    @endpoint
    def dashboard_link(self) -> Call[model.DashboardLink]:
        """Make a link that signs in to the dashboard once, within a minute; `path` is on `address.url`."""
        return Call("POST", "/dashboard/links", form(model.DashboardLink), body={})

    @row_list
    def audit(
        self,
        *,
        limit: int = 100,
        user: str | None = None,
        outcome: str | None = None,
        path: str | None = None,
    ) -> Call[RowPage[model.AuditRow]]:
        """Return the newest lines of the audit log, newest first."""
        chosen = params(limit=limit, user=user, outcome=outcome, path=path)
        return Call("GET", "/audit", form(model.AuditPage), chosen)


def logs(name: str, *, pod: str | None, start: int | None, tail: int | None, follow: bool) -> Call[None]:
    """Return the call for the output of a pod."""
    chosen = params(pod=pod, start=start, tail=tail, follow="true" if follow else None)
    return Call("GET", f"/workloads/{path_part(name)}/logs", nothing, chosen)


def _workloads(limit: int, after: str | None, filters: WorkloadFilterFields) -> Call[model.WorkloadPage]:
    chosen = params(
        project=filters.get("project"),
        status=",".join(filters.get("status", ())),
        type=filters.get("type"),
        user=filters.get("user"),
        q=filters.get("query"),
        all="true" if filters.get("ended") else None,
        since=filters.get("since_s"),
        limit=limit,
        after=after,
    )
    return Call("GET", "/workloads", form(lists.WorkloadPage), chosen)


def _events(limit: int, after: str | None, filters: EventFilterFields) -> Call[model.EventPage]:
    return Call("GET", "/events", form(model.EventPage), params(**filters, limit=limit, after=after))


def _act(name: str, action: Action, **chosen: str | None) -> Call[model.WorkloadRow]:
    path = f"/workloads/{path_part(name)}/{action}"
    return Call("POST", path, form(lists.WorkloadRow), params(**chosen))


def _queues(kind: Kind, chosen: Mapping[str, str] | None = None) -> Call[RowPage[model.QueueRow]]:
    return Call("GET", f"/{kind}", form(model.QueuePage), {**_ALL, **(chosen or {})})


def _queue(
    method: str, kind: Kind, name: str, body: object = None, version: str | None = None
) -> Call[model.QueueDetail]:
    path = f"/{kind}/{path_part(name)}"
    return Call(method, path, form(model.QueueDetail), params(version=version), body=body)


def _delete_queue(kind: Kind, name: str) -> Call[model.QueueDeleted]:
    def read(raw: bytes) -> model.QueueDeleted:
        # A cluster or an older server sends no body.
        return model.QueueDeleted.model_validate_json(raw) if raw else model.QueueDeleted(name=name)

    return Call("DELETE", f"/{kind}/{path_part(name)}", read)


def _secret(project: str, name: str) -> str:
    return f"/projects/{path_part(project)}/secrets/{path_part(name)}"
