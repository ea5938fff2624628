"""Secrets of projects: set, listed and deleted by name. A workload names them; its processes get the values.

A pending workload with a missing secret is suspended with that reason, and resumed when the secret is set
again.
"""

import asyncio
import re
import threading
from collections.abc import Collection, Iterable, Mapping

from weir.api.answers import SecretRow
from weir.api.submissions import Submission
from weir.control.journal import WorkloadRecord
from weir.control.port import Fact, PodExit, PodExited
from weir.local.files import secret_files
from weir.local.server.access.authorization import Action, Person, require
from weir.local.server.http.problem_details import RequestRefused, field_refusal
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.queue_lookup import no_such_queue
from weir.state.events import WorkloadSuspended
from weir.store.errors import NoSuchWorkload, NotSuspended, WorkloadOver
from weir.store.store import Store

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_HELD = "its secret "


def missing_secret_sentence(project: str, name: str) -> str:
    """Return the reason of a suspended workload that lacks a secret."""
    return f"{_HELD}{name} isn't set: `weir secret set {name} -p {project}` lets it start"


class ProjectSecrets:
    """Stores the secrets of projects, and checks those that submissions name."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._home = str(pool.home)
        self._changing = threading.Lock()
        self._in_turn = asyncio.Lock()
        # Running workloads that couldn't start a second time, with the reason
        self._lacking: dict[str, str] = {}

    # Changes by members

    async def all(self, project: str, person: Person) -> list[SecretRow]:
        """Return the names of a project's secrets, without values."""
        self._check_project(project, person)
        secrets = await asyncio.to_thread(self._read, project)
        return [_row(name, secret) for name, secret in sorted(secrets.items())]

    async def set(self, project: str, name: str, value: str, person: Person) -> SecretRow:
        """Set a secret; workloads suspended for it continue. Running processes keep the old value."""
        self._check_project(project, person)
        if _NAME.fullmatch(name) is None:
            text = f"{name[:80]!r} can't be one; write at most 63 letters, digits and any of . _ -"
            raise field_refusal("name", text)
        secret: dict[str, object] = {"value": value, "set_s": self._pool.clock(), "by": person.user}
        async with self._in_turn:
            await self._check_owner(project, name, person)
            await asyncio.to_thread(self._put, project, name, secret)
        await self._look_again(project)
        return _row(name, secret)

    async def delete(self, project: str, name: str, person: Person) -> None:
        """Delete a secret; pending workloads that name it are suspended."""
        self._check_project(project, person)
        async with self._in_turn:
            await self._check_owner(project, name, person)
            is_deleted = await asyncio.to_thread(self._put, project, name, None)
        if not is_deleted:
            raise RequestRefused(
                404, f"Project {project} has no secret {name[:80]}; `weir secret list` shows which it has."
            )
        await self._look_again(project)

    def forget(self, project: str) -> list[str]:
        """Delete all secrets of a project that is deleted, or just made; return their names."""
        with self._changing:
            path = secret_files.file_of(self._home, project)
            try:
                names = sorted(secret_files.read(path))
            except OSError:
                names = []
            secret_files.write(path, {})
            return names

    def _check_project(self, project: str, person: Person) -> None:
        if project not in self._pool.inventory.projects:
            raise no_such_queue("project", project)
        require(person, Action.USE_SECRETS, project)

    async def _check_owner(self, project: str, name: str, person: Person) -> None:
        """Refuse to change a secret that someone else set, unless the person leads the project."""
        secrets = await asyncio.to_thread(self._read, project)
        if name in secrets:
            setter = secrets[name].get("by")
            require(person, Action.CHANGE_SECRET, project, owner=None if setter is None else str(setter))

    # Secrets of workloads

    async def check(self, submission: Submission) -> None:
        """Refuse a submission that names a secret its project doesn't have.

        Raises:
            RequestRefused: the project lacks a secret.
        """
        if not submission.secrets:
            return
        secrets = await asyncio.to_thread(self._read, submission.project)
        errors = []
        for variable, name in submission.secrets.items():
            if name not in secrets:
                text = (
                    f"secrets: project {submission.project} has no secret {name[:80]}; "
                    f"set it with `weir secret set {name[:80]} -p {submission.project}`"
                )
                errors.append({"field": f"secrets.{variable[:80]}", "message": text})
        if errors:
            raise RequestRefused(422, f"The submission: {errors[0]['message']}", errors)

    async def check_resumed(self, name: str) -> None:
        """Refuse to resume a workload that lacks a secret.

        Raises:
            RequestRefused: the project has lost a secret of the workload.
        """
        recorded = await asyncio.to_thread(self._pool.store.workloads.newest, name)
        if recorded is not None and recorded.record.launch.secrets:
            names = await asyncio.to_thread(self._names, recorded.record.workload.project)
            missing = None if names is None else missing_secret(recorded.record, names)
            if missing is not None:
                raise RequestRefused(409, f"{name} can't be resumed: {missing}.")

    def begin(self, records: Iterable[WorkloadRecord]) -> None:
        """Find the workloads that lack a secret as the server begins.

        On the control thread, after each step.
        """
        named = [record for record in records if record.launch.secrets and record.suspended is None]
        secret_names = {
            project: self._names(project) for project in {record.workload.project for record in named}
        }
        self._lacking = {}
        for starting in named:
            names = secret_names[starting.workload.project]
            if names is not None and (why := missing_secret(starting, names)) is not None:
                self._lacking[starting.workload.name] = why

    def after(self, facts: Iterable[Fact]) -> list[WorkloadSuspended]:
        """Return facts to add to these: a workload that lacks a secret is suspended once it stops."""
        suspensions: dict[str, WorkloadSuspended] = {}
        for fact in facts:
            if isinstance(fact, PodExited) and fact.how is not PodExit.DONE:
                name = fact.pod.workload
                why = self._lacking.pop(name, None)
                if why is not None:
                    self._pool.store.workloads.suspend(name, why)
                    suspensions[name] = WorkloadSuspended(name, True, why)
        return list(suspensions.values())

    def after_step(self) -> None:
        """Suspend workloads that lack a secret and are pending now."""
        for name, why in list(self._lacking.items()):
            row = self._pool.view.row(name)
            if row is None:
                self._lacking.pop(name, None)
            elif row.status == "pending":
                self._lacking.pop(name, None)
                self._pool.store.workloads.suspend(name, why)
                self._pool.backend.tell(WorkloadSuspended(name, True, why))

    async def _look_again(self, project: str) -> None:
        """Suspend and resume pending workloads of a project as its secrets are now."""
        store = self._pool.store
        for record, missing in await asyncio.to_thread(self._naming, store, project):
            name = record.workload.name
            is_held = record.suspended is not None and record.suspended.startswith(_HELD)
            row = self._pool.view.row(name)
            if missing is None:
                self._lacking.pop(name, None)
                if is_held:
                    await self._hold(name, None)
            elif row is not None and row.status != "pending":
                self._lacking[name] = missing
            elif record.suspended is None or (is_held and record.suspended != missing):
                await self._hold(name, missing)

    async def _hold(self, name: str, why: str | None) -> None:
        store = self._pool.store
        try:
            await asyncio.wrap_future(
                store.workloads.resume(name) if why is None else store.workloads.suspend(name, why)
            )
        except (NoSuchWorkload, WorkloadOver, NotSuspended):
            return  # it has ended or was resumed meanwhile
        self._pool.backend.tell(WorkloadSuspended(name, why is not None, why or ""))

    def _naming(self, store: Store, project: str) -> list[tuple[WorkloadRecord, str | None]]:
        """Return the workloads of a project that name secrets, each with a missing secret if any."""
        if (names := self._names(project)) is None:
            return []
        records = [record for record in store.journal.workloads() if record.workload.project == project]
        return [(record, missing_secret(record, names)) for record in records if record.launch.secrets]

    def _names(self, project: str) -> frozenset[str] | None:
        """Return the names of a project's secrets, none of a damaged file; None if it can't be read now."""
        try:
            return frozenset(secret_files.read(secret_files.file_of(self._home, project)))
        except secret_files.SecretFileDamaged:
            return frozenset()
        except OSError:
            return None

    def _read(self, project: str) -> dict[str, dict[str, object]]:
        try:
            return secret_files.read(secret_files.file_of(self._home, project))
        except OSError as error:
            raise _out_of_reach(error) from None

    def _put(self, project: str, name: str, secret: Mapping[str, object] | None) -> bool:
        """Set or delete a secret; return True if it existed before."""
        with self._changing:
            path = secret_files.file_of(self._home, project)
            try:
                secrets = secret_files.read(path)
            except secret_files.SecretFileDamaged:
                secrets = {}  # a new value replaces the unusable file
            except OSError as error:
                raise _out_of_reach(error) from None
            was_there = name in secrets
            if secret is not None:
                secrets[name] = dict(secret)
            else:
                secrets.pop(name, None)
            if len(secrets) > secret_files.SECRETS_MAX:
                most = secret_files.SECRETS_MAX
                raise RequestRefused(422, f"Project {project} has {most} secrets, the maximum: delete one.")
            try:
                secret_files.write(path, secrets)
            except OSError as error:
                raise _out_of_reach(error) from None
            return was_there


def missing_secret(record: WorkloadRecord, names: Collection[str]) -> str | None:
    """Return why a workload can't start with these secrets set; None if it has all it names."""
    missing = next((name for _, name in record.launch.secrets if name not in names), None)
    return None if missing is None else missing_secret_sentence(record.workload.project, missing)


def _out_of_reach(error: OSError) -> RequestRefused:
    return RequestRefused(503, f"The secrets can't be read or written: {error.strerror or error}.")


def _row(name: str, secret: Mapping[str, object]) -> SecretRow:
    set_s, by = secret.get("set_s"), secret.get("by")
    return SecretRow(
        name=name,
        set_s=float(set_s) if isinstance(set_s, int | float) else None,
        user=by if isinstance(by, str) else None,
    )
