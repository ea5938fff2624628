"""A pool, asked from Python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import httpx

from weir.client import endpoints
from weir.client.address import NO_CLUSTER, find
from weir.client.endpoints import By, Call
from weir.client.errors import Unreachable
from weir.client.stream import Change, Reader, wait_s
from weir.client.transport import (
    ENDED,
    FOLLOW,
    FOLLOW_LOGS,
    LOOK_S_MAX,
    LOOK_S_MIN,
    PATIENCE_S,
    client,
    here,
    retry_s,
    unreachable,
)

if TYPE_CHECKING:
    from weir.api.answers import (
        AuditRow,
        CheckpointRow,
        EventPage,
        EventRow,
        NodeRow,
        Page,
        PoolStatus,
        QueueDeleted,
        QueueRow,
        SecretRow,
        TokenMade,
        TokenRow,
        UsageReport,
        WhyAnswer,
        WorkloadDetail,
        WorkloadPage,
        WorkloadRow,
    )
    from weir.api.submissions import Submission
    from weir.client.submissions import Amount, SubmissionFields

Answered = TypeVar("Answered")
Paged = TypeVar("Paged", bound="Page")


class Pool:
    """A pool. Without an address it is the one of `$WEIR_URL`, else the one on this machine.

    Every method may raise `Unreachable`, and `Refused` with what was wrong.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.address = find(url, token)
        if self.address.is_cluster and transport is None:
            raise Unreachable(NO_CLUSTER.format(self.address.url))
        self._http = client(self.address, timeout_s, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let its connections go."""
        self._http.close()

    # Workloads

    def submit(
        self, submission: Submission | Mapping[str, Any] | None = None, /, **words: Unpack[SubmissionFields]
    ) -> WorkloadDetail:
        """Queue a workload: `pool.submit(project="vision", gpus=2, command=["python", "train.py"])`.

        It starts in the current directory where the pool is on this machine, unless `directory` says another.
        """
        return self._ask(endpoints.submit(submission, here(self.address, submission, words)))

    def page(
        self,
        *,
        project: str | None = None,
        status: Sequence[str] = (),
        type: str | None = None,  # noqa: A002 - the word people filter by
        user: str | None = None,
        query: str | None = None,
        ended: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> WorkloadPage:
        """One page of workloads, newest first; `ended`: those that are over, too."""
        return self._ask(
            endpoints.workloads(
                project=project,
                status=status,
                kind=type,
                user=user,
                query=query,
                ended=ended,
                limit=limit,
                after=after,
            )
        )

    def list(
        self,
        *,
        project: str | None = None,
        status: Sequence[str] = (),
        type: str | None = None,  # noqa: A002 - the word people filter by
        user: str | None = None,
        query: str | None = None,
        ended: bool = False,
    ) -> Iterator[WorkloadRow]:
        """Workloads, newest first, page after page; `ended`: those that are over, too."""
        after: str | None = None
        while True:
            page = self.page(
                project=project,
                status=status,
                type=type,
                user=user,
                query=query,
                ended=ended,
                limit=endpoints.PAGE,
                after=after,
            )
            yield from page.items
            if page.next is None:
                return
            after = page.next

    def get(self, name: str) -> WorkloadDetail:
        """All that is known of a workload: the newest of that name."""
        return self._ask(endpoints.workload(name))

    def why(self, name: str) -> WhyAnswer:
        """Why it waits, its queue's numbers, and what would let it start now."""
        return self._ask(endpoints.why(name))

    def stop(self, name: str) -> WorkloadRow:
        """End it for good."""
        return self._ask(endpoints.act(name, "stop"))

    def suspend(self, name: str) -> WorkloadRow:
        """Stop it and keep its place in the history: it starts again only once it is resumed."""
        return self._ask(endpoints.act(name, "suspend"))

    def resume(self, name: str) -> WorkloadRow:
        """Let a suspended one start again."""
        return self._ask(endpoints.act(name, "resume"))

    def rerun(self, name: str) -> WorkloadRow:
        """Submit one that has ended anew, as it was."""
        return self._ask(endpoints.act(name, "rerun"))

    def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        pod: str | None = None,
        start: int | None = None,
        tail: int | None = None,
    ) -> Iterator[str]:
        """The output of a pod (`group/index`, or `all`; by default the first), piece by piece as it comes."""
        call = endpoints.logs(name, pod=pod, start=start, tail=tail, follow=follow)
        timeout = FOLLOW_LOGS if follow else httpx.USE_CLIENT_DEFAULT
        try:
            with self._http.stream(
                call.method, call.path, params=dict(call.params), timeout=timeout
            ) as answer:
                if not answer.is_success:
                    raise endpoints.refusal(answer.status_code, answer.read())
                yield from answer.iter_text()
        except httpx.TransportError as error:
            raise unreachable(self.address, error) from error

    def wait(self, name: str, *, timeout_s: float | None = None) -> WorkloadDetail:
        """Wait until it is over, however: `status` says how. A server that restarts meanwhile is waited for.

        Raises:
            TimeoutError: it isn't over in time.
        """
        started_s = last_s = time.monotonic()
        pause_s = LOOK_S_MIN
        while True:
            try:
                found = self.get(name)
                last_s = time.monotonic()
                if found.status in ENDED:
                    return found
            except Unreachable:
                if time.monotonic() - last_s > PATIENCE_S:
                    raise
            if timeout_s is not None and time.monotonic() + pause_s > started_s + timeout_s:
                raise TimeoutError(f"{name} isn't over after {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(LOOK_S_MAX, pause_s * 1.3)

    # The quota tree

    def projects(self) -> Sequence[QueueRow]:
        """All projects, with what they have and hold."""
        return [row for page in self._pages(endpoints.queues("projects")) for row in page.items]

    def project(self, name: str) -> QueueRow:
        """One project."""
        return self._ask(endpoints.queue("projects", name))

    def set_project(self, name: str, /, **words: Any) -> QueueRow:
        """Make a project, or set one: `department`, `quota`, `limit`, `weight`, `priority`."""
        return self._ask(endpoints.set_queue("projects", name, words))

    def delete_project(self, name: str) -> QueueDeleted:
        """Delete a project; what went with it."""
        return self._ask(endpoints.delete_queue("projects", name))

    def secrets(self, project: str) -> Sequence[SecretRow]:
        """Names of a project's secrets; their values are never told."""
        return (self._ask(endpoints.secrets(project))).items

    def set_secret(self, project: str, name: str, value: str) -> SecretRow:
        """Set a secret; workloads of the project that name it get this value when they start."""
        return self._ask(endpoints.set_secret(project, name, value))

    def delete_secret(self, project: str, name: str) -> None:
        """Delete a secret; pending workloads that name it are suspended."""
        self._ask(endpoints.delete_secret(project, name))

    def departments(self) -> Sequence[QueueRow]:
        """All departments, with what they have and hold."""
        return [row for page in self._pages(endpoints.queues("departments")) for row in page.items]

    def department(self, name: str) -> QueueRow:
        """One department."""
        return self._ask(endpoints.queue("departments", name))

    def set_department(self, name: str, /, **words: Any) -> QueueRow:
        """Make a department, or set one: `parent`, `quota`, `limit`, `weight`, `priority`."""
        return self._ask(endpoints.set_queue("departments", name, words))

    def delete_department(self, name: str) -> QueueDeleted:
        """Delete a department; what went with it."""
        return self._ask(endpoints.delete_queue("departments", name))

    # The pool

    def status(self) -> PoolStatus:
        """The pool in one glance."""
        return self._ask(endpoints.pool_status())

    def nodes(self) -> Sequence[NodeRow]:
        """All machines and their devices."""
        return [row for page in self._pages(endpoints.nodes()) for row in page.items]

    def events_page(
        self,
        *,
        workload: str | None = None,
        project: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> EventPage:
        """One page of what happened, newest first."""
        return self._ask(
            endpoints.events(workload=workload, project=project, kind=kind, limit=limit, after=after)
        )

    def events(
        self, *, workload: str | None = None, project: str | None = None, kind: str | None = None
    ) -> Iterator[EventRow]:
        """What happened, newest first, page after page."""
        after: str | None = None
        while True:
            page = self.events_page(
                workload=workload, project=project, kind=kind, limit=endpoints.PAGE, after=after
            )
            yield from page.items
            if page.next is None:
                return
            after = page.next

    def stream(self, *, last: str | None = None) -> Iterator[Change]:
        """What changes from now on, or since `last` (the `id` of a change); a broken connection is resumed.

        Raises:
            Unreachable: the pool doesn't answer at first, or stays away for a minute.
        """
        reader, attempt, heard_s = Reader(last), 0, None
        while True:
            try:
                for line in self._lines(reader.last):
                    heard_s, attempt = time.monotonic(), 0
                    change = reader.line(line)
                    if change is not None:
                        yield change
            except Unreachable:
                if heard_s is None or time.monotonic() - heard_s > PATIENCE_S:
                    raise
            reader.broken()
            attempt += 1
            time.sleep(reader.retry_s or wait_s(attempt))

    def usage(
        self, *, since_s: float | None = None, until_s: float | None = None, by: By = "project"
    ) -> UsageReport:
        """What was used between two times (seconds since the epoch), by one kind of key."""
        return self._ask(endpoints.usage(since_s=since_s, until_s=until_s, by=by))

    def snapshot(self) -> str:
        """A scenario file that replays the next decision."""
        return self._ask(endpoints.snapshot())

    def checkpoints(self) -> Sequence[CheckpointRow]:
        """Return all directories in which workloads saved their state."""
        return [row for page in self._pages(endpoints.checkpoints()) for row in page.items]

    def tokens(self) -> Sequence[TokenRow]:
        """All tokens, without their secrets."""
        return [row for page in self._pages(endpoints.tokens()) for row in page.items]

    def make_token(
        self,
        user: str,
        *,
        role: str = "member",
        projects: Sequence[str] = (),
        label: str = "",
        expires: Amount | None = None,
    ) -> TokenMade:
        """A new token; its text is shown this once. `expires`: for how long it holds, such as "90d"."""
        return self._ask(endpoints.make_token(user, role, projects, label, expires))

    def rotate_token(self, number: int | None = None, *, expires: Amount | None = None) -> TokenMade:
        """Another text for a token, or for the one this pool is asked with; the old text is worth nothing."""
        return self._ask(endpoints.rotate_token(number, expires))

    def audit(
        self,
        *,
        limit: int = 100,
        user: str | None = None,
        outcome: str | None = None,
        path: str | None = None,
    ) -> Sequence[AuditRow]:
        """The newest lines of the audit log, newest first."""
        return (self._ask(endpoints.audit(limit=limit, user=user, outcome=outcome, path=path))).items

    def revoke_token(self, number: int) -> None:
        """A token is worth nothing from now on."""
        self._ask(endpoints.revoke_token(number))

    def _lines(self, last: str | None) -> Iterator[str]:
        headers = {"Last-Event-ID": last} if last is not None else {}
        call = endpoints.stream()
        try:
            with self._http.stream(call.method, call.path, headers=headers, timeout=FOLLOW) as answer:
                if answer.status_code >= 500:
                    raise Unreachable(f"The pool at {self.address.url} is in trouble: try again later.")
                if not answer.is_success:
                    raise endpoints.refusal(answer.status_code, answer.read())
                yield from answer.iter_lines()
        except httpx.TransportError as error:
            raise unreachable(self.address, error) from error

    def _pages(self, call: Call[Paged]) -> Iterator[Paged]:
        while True:
            page = self._ask(call)
            yield page
            if page.next is None:
                return
            call = replace(call, params={**call.params, "after": page.next})

    def _ask(self, call: Call[Answered]) -> Answered:
        started_s = time.monotonic()
        while True:
            try:
                answer = self._http.request(call.method, call.path, params=dict(call.params), json=call.body)
            except httpx.TransportError as error:
                raise unreachable(self.address, error) from error
            pause_s = retry_s(answer)
            if pause_s is None or time.monotonic() + pause_s > started_s + PATIENCE_S:
                break
            time.sleep(pause_s)
        if not answer.is_success:
            raise endpoints.refusal(answer.status_code, answer.content)
        return call.reads(answer.content)
