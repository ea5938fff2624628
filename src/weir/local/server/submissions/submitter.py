"""Submissions of people: checked completely, written down in one transaction, and passed on then."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from weir.api.answers import WorkloadRow
from weir.api.batch_order import BatchOrderError, ordered_positions
from weir.api.submissions import Submission
from weir.control.journal import ArrayPlan, StartConditions, WorkloadRecord
from weir.local.server.access.account_mode import PoolAccounts
from weir.local.server.access.authorization import Action, Person, require
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.worker_threads import Workers
from weir.local.server.state.pool_state import PoolState
from weir.local.server.submissions import submission_checks
from weir.local.server.submissions.container_checks import ContainerChecks
from weir.local.server.submissions.pending_limits import PendingLimits
from weir.local.server.submissions.project_secrets import ProjectSecrets
from weir.local.server.submissions.start_conditions import StartGates, start_conditions
from weir.local.server.trials.rung_recorder import RungRecorder
from weir.local.server.trials.trial_launch import TrialLaunch, as_trial
from weir.local.server.views.array_view import new_array
from weir.store.errors import NameTaken

NAMES_TRIED_MAX = 5
ORDER_S = 1e-6
"""Time between the submissions of a batch: they are queued in its order."""


Write = Callable[[Sequence[WorkloadRecord], Sequence[Mapping[str, object]]], "Future[list[WorkloadRecord]]"]
"""Stores records with their submissions, all or none."""


@dataclass(frozen=True, slots=True)
class ReadSubmission:
    """A submission, its JSON without a name, and the size of that in bytes.

    `only` are the indices of an array that run, if not all. `trial` makes it a trial of a sweep, or
    the rerun of one.
    """

    submission: Submission
    raw: Mapping[str, object]
    size: int
    only: tuple[int, ...] = ()
    trial: TrialLaunch | None = None


@dataclass(frozen=True, slots=True)
class _Checked:
    """A submission, with the values that depend on the state of the pool."""

    asked: ReadSubmission
    conditions: StartConditions
    directory_exists: bool | None
    home: str | None


@dataclass(frozen=True, slots=True)
class SubmissionServices:
    """Parts of the server that check a submission with its person."""

    accounts: PoolAccounts
    secrets: ProjectSecrets
    pending_limits: PendingLimits
    containers: ContainerChecks
    workers: Workers


class Submitter:
    """Queues workloads. Belongs to the event loop."""

    def __init__(
        self,
        pool: PoolState,
        people: SubmissionServices,
        gates: StartGates,
        trials: RungRecorder,
        wake: Callable[[], None],
    ) -> None:
        """Create it; `wake` makes control read new submissions."""
        self._pool = pool
        self._people = people
        self._gates = gates
        self._trials = trials
        self._wake = wake

    async def submit(
        self, asked: ReadSubmission, person: Person, write: Write | None = None
    ) -> tuple[WorkloadRecord, WorkloadRow]:
        """Queue a workload or an array; `write` stores it in place of the store.

        Raises:
            RequestRefused: the request is invalid, or not allowed for this person.
            NameTaken, NoSuchQueue, StoreFailed: the store's own refusals.
        """
        made = await self._submit([await self._prepared(asked, person)], person, write=write)
        if not made:
            raise RequestRefused(409, "It was changed meanwhile, so nothing is queued.")
        return made[0]

    async def check(self, submission: Submission, size: int, person: Person) -> WorkloadRecord:
        """Check a submission that is queued later, by the present state of the pool; return its record.

        Raises:
            RequestRefused: it is invalid, or not allowed for this person.
        """
        checked = [await self._prepared(ReadSubmission(submission, {}, size), person)]
        check = partial(self._records, checked, person, self._pool.clock(), ())
        return (await self._people.workers.parse(size, check))[0]

    async def submit_batch(
        self, asked: Sequence[ReadSubmission], person: Person
    ) -> list[tuple[WorkloadRecord, WorkloadRow]]:
        """Queue workloads, all or none; a condition of one may name another. They keep their order.

        Raises:
            Refused, NameTaken, NoSuchQueue, StoreFailed: as for one; nothing is queued.
        """
        try:
            order = ordered_positions([request.submission for request in asked])
        except BatchOrderError as error:
            raise RequestRefused(422, str(error), error.errors) from None
        names = {request.submission.name for request in asked if request.submission.name is not None}
        checked = []
        for position in order:
            with _at_position(position):
                checked.append(await self._prepared(asked[position], person, names))
        made = dict(zip(order, await self._submit(checked, person, order), strict=True))
        return [made[position] for position in range(len(asked))]

    async def _prepared(self, asked: ReadSubmission, person: Person, batch: Collection[str] = ()) -> _Checked:
        """Check the fields that depend on the state of the pool."""
        pool, submission = self._pool, asked.submission
        if submission.project in pool.inventory.queues_by_name:
            require(person, Action.SUBMIT, submission.project)
            await self._people.secrets.check(submission)
        # It may have ended in the store
        if submission.name is not None and pool.view.is_live(submission.name):
            raise NameTaken(f"A workload called {submission.name} isn't over yet: write another name.")
        account = await self._people.accounts.job_account(person.user)
        exists = await submission_checks.directory_exists(submission, self._people.workers, account)
        conditions = await start_conditions(submission, pool, batch)
        return _Checked(asked, conditions, exists, None if account is None else account.home)

    async def _submit(
        self,
        checked: Sequence[_Checked],
        person: Person,
        order: Sequence[int] = (),
        write: Write | None = None,
    ) -> list[tuple[WorkloadRecord, WorkloadRow]]:
        """Queue submissions; `order` are their positions in a batch."""
        pool = self._pool
        with self._reserved(checked, person):
            records = await self._enqueue(checked, person, order, write or pool.store.workloads.submit_all)
            made = [(record, self._add(record, person)) for record in records]
        # Before control sends their start events
        pool.stream.send([("workload", row, None) for _, row in made])
        for record in records:
            if record.array is None:
                pool.backend.submitted(record)
            self._gates.add(record)
            pool.wake_array(record.launch.uid)
        self._wake()
        return made

    @contextmanager
    def _reserved(self, checked: Sequence[_Checked], person: Person) -> Iterator[None]:
        pool = self._pool
        numbers = Counter(candidate.asked.submission.project for candidate in checked)
        with ExitStack() as reserved:
            for project, number in numbers.items():
                queue = pool.inventory.queues_by_name.get(project)
                own = None if queue is None else queue.limits_of(person.user)
                reserved.enter_context(self._people.pending_limits.reserved(person, project, own, number))
            yield

    async def _enqueue(
        self, checked: Sequence[_Checked], person: Person, order: Sequence[int], write: Write
    ) -> list[WorkloadRecord]:
        """Check submissions and write them down, under other names if a made one is taken."""
        pool = self._pool
        generates = any(candidate.asked.submission.name is None for candidate in checked)
        for tries_left in reversed(range(NAMES_TRIED_MAX)):
            check = partial(self._records, checked, person, pool.clock(), order)
            made = await self._people.workers.parse(sum(candidate.asked.size for candidate in checked), check)
            asked = [candidate.asked.raw for candidate in checked]
            try:
                return await asyncio.wrap_future(write(made, asked))
            except NameTaken:
                if not generates or not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _records(
        self, checked: Sequence[_Checked], person: Person, now_s: float, order: Sequence[int]
    ) -> list[WorkloadRecord]:
        """Return the records of submissions; in a worker thread."""
        pool, records = self._pool, []
        for place, candidate in enumerate(checked):
            asked = candidate.asked
            with _at_position(order[place]) if order else nullcontext():
                record = submission_checks.check_submission(
                    asked.submission,
                    person=person,
                    now_s=now_s + place * ORDER_S,
                    inventory=pool.inventory,
                    rules=pool.policy.life,
                    directory_exists=candidate.directory_exists,
                    home=candidate.home,
                    containers=self._people.containers,
                )
            written = asked.submission.array
            plan = None if written is None else ArrayPlan(written, asked.only)
            record = replace(record, conditions=candidate.conditions, array=plan)
            records.append(as_trial(record, asked.trial))
        return records

    def _add(self, record: WorkloadRecord, person: Person) -> WorkloadRow:
        """Add a workload that is written down to the view, and the event of its submission."""
        pool, workload = self._pool, record.workload
        self._trials.watch(record)
        sentence = f"{person.user} submitted {workload.name} to project {workload.project}."
        numbers: dict[str, object] = {"devices": record.devices}
        if record.array is None:
            row = pool.view.add(record)
        else:
            row = pool.view.arrays.add(new_array(record)).row()
            numbers["array"] = record.array.written
        at_s = record.submitted_at_s
        pool.add_event(workload, record.launch.uid, "submitted", sentence, person, at_s=at_s, **numbers)
        return row


@contextmanager
def _at_position(position: int) -> Iterator[None]:
    """Name the workload of a batch that is refused."""
    try:
        yield
    except RequestRefused as refused:
        where = f"workloads[{position}]"
        errors = [{**error, "field": f"{where}.{error.get('field', '')}"} for error in refused.errors]
        raise RequestRefused(refused.status, f"{where}: {refused.detail}", errors) from None
    except NameTaken as taken:
        raise NameTaken(f"workloads[{position}]: {taken}") from None
