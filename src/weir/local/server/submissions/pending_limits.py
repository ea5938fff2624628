"""Workloads that wait, counted by person and by project, so that one person can't fill the queue."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic

from weir.api.answers import WorkloadRow
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.server_limits import ServerLimits
from weir.local.server.submissions.person_limits import more_sentence, pending_sentence
from weir.model.queues import PersonLimits

RECOUNT_S = 0.5
"""Age of the counts after which all rows are counted again; in between each submission adds to them."""


class PendingLimits:
    """Counts pending workloads, and submissions in progress. Belongs to the event loop."""

    def __init__(
        self,
        limits: ServerLimits,
        rows: Callable[[], Iterable[WorkloadRow]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._limits = limits
        self._rows = rows
        self._clock = clock
        self._counted_s = -RECOUNT_S
        self._users: Counter[str] = Counter()
        self._projects: Counter[str] = Counter()
        self._persons: Counter[tuple[str, str]] = Counter()
        self._reserved: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def reserved(
        self, person: Person, project: str, own: PersonLimits | None = None, number: int = 1
    ) -> Iterator[None]:
        """Reserve places in the queue while workloads are stored; an array takes one place.

        Raises:
            RequestRefused: the person or the project has reached the limit of pending workloads.
        """
        if not may(person, Action.EXCEED_LIMITS):
            self._check(person.user, project, number)
        if own is not None and own.pending:
            self._check_own(person.user, project, own, number)
        place = (person.user, project)
        self._reserved[place] += number
        try:
            yield
            self._users[person.user] += number
            self._projects[project] += number
            self._persons[place] += number
        finally:
            self._reserved[place] -= number

    def _count(self) -> None:
        now_s = self._clock()
        if now_s - self._counted_s < RECOUNT_S:
            return
        self._counted_s = now_s
        waiting = [row for row in self._rows() if row.status == "pending"]
        self._users = Counter(row.user for row in waiting)
        self._projects = Counter(row.project for row in waiting)
        self._persons = Counter((row.user, row.project) for row in waiting)

    def _check_own(self, user: str, project: str, own: PersonLimits, number: int) -> None:
        """Check that a person hasn't reached the project's limit of pending workloads."""
        self._count()
        if self._own_sentence(user, project, own, number) is None:
            return
        self._counted_s = -RECOUNT_S
        self._count()  # some may have started since the last count
        if (sentence := self._own_sentence(user, project, own, number)) is not None:
            raise RequestRefused(429, sentence)

    def _own_sentence(self, user: str, project: str, own: PersonLimits, number: int) -> str | None:
        pending = self._persons[user, project] + self._reserved[user, project]
        return pending_sentence(own, project, pending, number)

    def _check(self, user: str, project: str, number: int) -> None:
        self._count()
        reserved = list(self._reserved.items())
        pending = self._users[user] + sum(held for (person, _), held in reserved if person == user)
        projects = self._projects[project] + sum(held for (_, queue), held in reserved if queue == project)
        limits, suffix = self._limits, more_sentence(number)
        if pending + number > limits.pending_per_person_max:
            sentence = (
                f"You have {pending:,} pending workloads, and one person may have "
                f"{limits.pending_per_person_max:,}{suffix}: stop some, or wait until some have started."
            )
            raise RequestRefused(429, sentence)
        if projects + number > limits.pending_per_project_max:
            sentence = (
                f"Project {project} has {projects:,} pending workloads, and one project may have "
                f"{limits.pending_per_project_max:,}{suffix}: stop some, or wait until some have started."
            )
            raise RequestRefused(429, sentence)
