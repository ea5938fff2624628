"""A pool, asked from Python that doesn't wait: the same calls as `Pool`, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
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
    async_client,
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


class AsyncPool:
    """A pool. Without an address it is the one of `$WEIR_URL`, else the one on this machine.

    Every method may raise `Unreachable`, and `Refused` with what was wrong.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.address = find(url, token)
        if self.address.is_cluster and transport is None:
            raise Unreachable(NO_CLUSTER.format(self.address.url))
        self._http = async_client(self.address, timeout_s, transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let its connections go."""
        await self._http.aclose()

    # Workloads

    async def submit(
        self, submission: Submission | Mapping[str, Any] | None = None, /, **words: Unpack[SubmissionFields]
    ) -> WorkloadDetail:
        """Queue a workload: `pool.submit(project="vision", gpus=2, command=["python", "train.py"])`.

        It starts in the current directory where the pool is on this machine, unless `directory` says another.
        """
        return await self._ask(endpoints.submit(submission, here(self.address, submission, words)))

    async def page(
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
        return await self._ask(
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

    async def list(
        self,
        *,
        project: str | None = None,
        status: Sequence[str] = (),
        type: str | None = None,  # noqa: A002 - the word people filter by
        user: str | None = None,
        query: str | None = None,
        ended: bool = False,
    ) -> AsyncIterator[WorkloadRow]:
        """Workloads, newest first, page after page; `ended`: those that are over, too."""
        after: str | None = None
        while True:
            page = await self.page(
                project=project,
                status=status,
                type=type,
                user=user,
                query=query,
                ended=ended,
                limit=endpoints.PAGE,
                after=after,
            )
            for row in page.items:
                yield row
            if page.next is None:
                return
            after = page.next

    async def get(self, name: str) -> WorkloadDetail:
        """All that is known of a workload: the newest of that name."""
        return await self._ask(endpoints.workload(name))

    async def why(self, name: str) -> WhyAnswer:
        """Why it waits, its queue's numbers, and what would let it start now."""
        return await self._ask(endpoints.why(name))

    async def stop(self, name: str) -> WorkloadRow:
        """End it for good."""
        return await self._ask(endpoints.act(name, "stop"))

    async def suspend(self, name: str) -> WorkloadRow:
        """Stop it and keep its place in the history: it starts again only once it is resumed."""
        return await self._ask(endpoints.act(name, "suspend"))

    async def resume(self, name: str) -> WorkloadRow:
        """Let a suspended one start again."""
        return await self._ask(endpoints.act(name, "resume"))

    async def rerun(self, name: str) -> WorkloadRow:
        """Submit one that has ended anew, as it was."""
        return await self._ask(endpoints.act(name, "rerun"))

    async def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        pod: str | None = None,
        start: int | None = None,
        tail: int | None = None,
    ) -> AsyncIterator[str]:
        """The output of a pod (`group/index`, or `all`; by default the first), piece by piece as it comes."""
        call = endpoints.logs(name, pod=pod, start=start, tail=tail, follow=follow)
        timeout = FOLLOW_LOGS if follow else httpx.USE_CLIENT_DEFAULT
        try:
            async with self._http.stream(
                call.method, call.path, params=dict(call.params), timeout=timeout
            ) as answer:
                if not answer.is_success:
                    raise endpoints.refusal(answer.status_code, await answer.aread())
                async for piece in answer.aiter_text():
                    yield piece
        except httpx.TransportError as error:
            raise unreachable(self.address, error) from error

    async def wait(self, name: str, *, timeout_s: float | None = None) -> WorkloadDetail:
        """Wait until it is over, however: `status` says how. A server that restarts meanwhile is waited for.

        Raises:
            TimeoutError: it isn't over in time.
        """
        started_s = last_s = time.monotonic()
        pause_s = LOOK_S_MIN
        while True:
            try:
                found = await self.get(name)
                last_s = time.monotonic()
                if found.status in ENDED:
                    return found
            except Unreachable:
                if time.monotonic() - last_s > PATIENCE_S:
                    raise
            if timeout_s is not None and time.monotonic() + pause_s > started_s + timeout_s:
                raise TimeoutError(f"{name} isn't over after {timeout_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(LOOK_S_MAX, pause_s * 1.3)

    # The quota tree

    async def projects(self) -> Sequence[QueueRow]:
        """All projects, with what they have and hold."""
        return [row async for page in self._pages(endpoints.queues("projects")) for row in page.items]

    async def project(self, name: str) -> QueueRow:
        """One project."""
        return await self._ask(endpoints.queue("projects", name))

    async def set_project(self, name: str, /, **words: Any) -> QueueRow:
        """Make a project, or set one: `department`, `quota`, `limit`, `weight`, `priority`."""
        return await self._ask(endpoints.set_queue("projects", name, words))

    async def delete_project(self, name: str) -> QueueDeleted:
        """Delete a project; what went with it."""
        return await self._ask(endpoints.delete_queue("projects", name))

    async def secrets(self, project: str) -> Sequence[SecretRow]:
        """Names of a project's secrets; their values are never told."""
        return (await self._ask(endpoints.secrets(project))).items

    async def set_secret(self, project: str, name: str, value: str) -> SecretRow:
        """Set a secret; workloads of the project that name it get this value when they start."""
        return await self._ask(endpoints.set_secret(project, name, value))

    async def delete_secret(self, project: str, name: str) -> None:
        """Delete a secret; pending workloads that name it are suspended."""
        await self._ask(endpoints.delete_secret(project, name))

    async def departments(self) -> Sequence[QueueRow]:
        """All departments, with what they have and hold."""
        return [row async for page in self._pages(endpoints.queues("departments")) for row in page.items]

    async def department(self, name: str) -> QueueRow:
        """One department."""
        return await self._ask(endpoints.queue("departments", name))

    async def set_department(self, name: str, /, **words: Any) -> QueueRow:
        """Make a department, or set one: `parent`, `quota`, `limit`, `weight`, `priority`."""
        return await self._ask(endpoints.set_queue("departments", name, words))

    async def delete_department(self, name: str) -> QueueDeleted:
        """Delete a department; what went with it."""
        return await self._ask(endpoints.delete_queue("departments", name))

    # The pool

    async def status(self) -> PoolStatus:
        """The pool in one glance."""
        return await self._ask(endpoints.pool_status())

    async def nodes(self) -> Sequence[NodeRow]:
        """All machines and their devices."""
        return [row async for page in self._pages(endpoints.nodes()) for row in page.items]

    async def events_page(
        self,
        *,
        workload: str | None = None,
        project: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> EventPage:
        """One page of what happened, newest first."""
        return await self._ask(
            endpoints.events(workload=workload, project=project, kind=kind, limit=limit, after=after)
        )

    async def events(
        self, *, workload: str | None = None, project: str | None = None, kind: str | None = None
    ) -> AsyncIterator[EventRow]:
        """What happened, newest first, page after page."""
        after: str | None = None
        while True:
            page = await self.events_page(
                workload=workload, project=project, kind=kind, limit=endpoints.PAGE, after=after
            )
            for row in page.items:
                yield row
            if page.next is None:
                return
            after = page.next

    async def stream(self, *, last: str | None = None) -> AsyncIterator[Change]:
        """What changes from now on, or since `last` (the `id` of a change); a broken connection is resumed.

        Raises:
            Unreachable: the pool doesn't answer at first, or stays away for a minute.
        """
        reader, attempt, heard_s = Reader(last), 0, None
        while True:
            try:
                async for line in self._lines(reader.last):
                    heard_s, attempt = time.monotonic(), 0
                    change = reader.line(line)
                    if change is not None:
                        yield change
            except Unreachable:
                if heard_s is None or time.monotonic() - heard_s > PATIENCE_S:
                    raise
            reader.broken()
            attempt += 1
            await asyncio.sleep(reader.retry_s or wait_s(attempt))

    async def usage(
        self, *, since_s: float | None = None, until_s: float | None = None, by: By = "project"
    ) -> UsageReport:
        """What was used between two times (seconds since the epoch), by one kind of key."""
        return await self._ask(endpoints.usage(since_s=since_s, until_s=until_s, by=by))

    async def snapshot(self) -> str:
        """A scenario file that replays the next decision."""
        return await self._ask(endpoints.snapshot())

    async def checkpoints(self) -> Sequence[CheckpointRow]:
        """Return all directories in which workloads saved their state."""
        return [row async for page in self._pages(endpoints.checkpoints()) for row in page.items]

    async def tokens(self) -> Sequence[TokenRow]:
        """All tokens, without their secrets."""
        return [row async for page in self._pages(endpoints.tokens()) for row in page.items]

    async def make_token(
        self,
        user: str,
        *,
        role: str = "member",
        projects: Sequence[str] = (),
        label: str = "",
        expires: Amount | None = None,
    ) -> TokenMade:
        """A new token; its text is shown this once. `expires`: for how long it holds, such as "90d"."""
        return await self._ask(endpoints.make_token(user, role, projects, label, expires))

    async def rotate_token(self, number: int | None = None, *, expires: Amount | None = None) -> TokenMade:
        """Another text for a token, or for the one this pool is asked with; the old text is worth nothing."""
        return await self._ask(endpoints.rotate_token(number, expires))

    async def audit(
        self,
        *,
        limit: int = 100,
        user: str | None = None,
        outcome: str | None = None,
        path: str | None = None,
    ) -> Sequence[AuditRow]:
        """The newest lines of the audit log, newest first."""
        return (await self._ask(endpoints.audit(limit=limit, user=user, outcome=outcome, path=path))).items

    async def revoke_token(self, number: int) -> None:
        """A token is worth nothing from now on."""
        await self._ask(endpoints.revoke_token(number))

    async def _lines(self, last: str | None) -> AsyncIterator[str]:
        headers = {"Last-Event-ID": last} if last is not None else {}
        call = endpoints.stream()
        try:
            async with self._http.stream(call.method, call.path, headers=headers, timeout=FOLLOW) as answer:
                if answer.status_code >= 500:
                    raise Unreachable(f"The pool at {self.address.url} is in trouble: try again later.")
                if not answer.is_success:
                    raise endpoints.refusal(answer.status_code, await answer.aread())
                async for line in answer.aiter_lines():
                    yield line
        except httpx.TransportError as error:
            raise unreachable(self.address, error) from error

    async def _pages(self, call: Call[Paged]) -> AsyncIterator[Paged]:
        while True:
            page = await self._ask(call)
            yield page
            if page.next is None:
                return
            call = replace(call, params={**call.params, "after": page.next})

    async def _ask(self, call: Call[Answered]) -> Answered:
        started_s = time.monotonic()
        while True:
            try:
                answer = await self._http.request(
                    call.method, call.path, params=dict(call.params), json=call.body
                )
            except httpx.TransportError as error:
                raise unreachable(self.address, error) from error
            pause_s = retry_s(answer)
            if pause_s is None or time.monotonic() + pause_s > started_s + PATIENCE_S:
                break
            await asyncio.sleep(pause_s)
        if not answer.is_success:
            raise endpoints.refusal(answer.status_code, answer.content)
        return call.reads(answer.content)
