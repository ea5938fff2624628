"""Workloads that wait, counted by person and by project, so that one person can't fill the queue."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic

from weir.api.answers import WorkloadRow
from weir.local.server.authorization import Action, Person, may
from weir.local.server.person_limits import pending_sentence
from weir.local.server.problem_details import RequestRefused
from weir.local.server.server_limits import ServerLimits
from weir.model.queues import PersonLimits

RECOUNT_S = 0.5
"""Age of the counts at which all rows are counted again; they grow with each submission in between."""


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
        self._reserved: list[tuple[str, str]] = []

    @contextmanager
    def reserved(self, person: Person, project: str, own: PersonLimits | None = None) -> Iterator[None]:
        """Hold a place in the queue while a workload is written down.

        Raises:
            Refused: the person or the project has as many pending workloads as one may.
        """
        if not may(person, Action.EXCEED_LIMITS):
            self._check(person.user, project)
        if own is not None and own.pending:
            self._check_own(person.user, project, own)
        place = (person.user, project)
        self._reserved.append(place)
        try:
            yield
            self._users[person.user] += 1
            self._projects[project] += 1
            self._persons[place] += 1
        finally:
            self._reserved.remove(place)

    def _count(self) -> None:
        now_s = self._clock()
        if now_s - self._counted_s < RECOUNT_S:
            return
        self._counted_s = now_s
        waiting = [row for row in self._rows() if row.status == "pending"]
        self._users = Counter(row.user for row in waiting)
        self._projects = Counter(row.project for row in waiting)
        self._persons = Counter((row.user, row.project) for row in waiting)

    def _check_own(self, user: str, project: str, own: PersonLimits) -> None:
        """Refuse a person who has as many pending workloads as the project lets one have."""
        self._count()
        if self._own_sentence(user, project, own) is None:
            return
        self._counted_s = -RECOUNT_S
        self._count()  # some may have started since
        if (sentence := self._own_sentence(user, project, own)) is not None:
            raise RequestRefused(429, sentence)

    def _own_sentence(self, user: str, project: str, own: PersonLimits) -> str | None:
        mine = self._persons[user, project] + sum(place == (user, project) for place in self._reserved)
        return pending_sentence(own, project, mine)

    def _check(self, user: str, project: str) -> None:
        self._count()
        mine = self._users[user] + sum(each == user for each, _ in self._reserved)
        projects = self._projects[project] + sum(each == project for _, each in self._reserved)
        limits = self._limits
        if mine >= limits.pending_per_person_max:
            sentence = (
                f"You have {mine:,} pending workloads, and one person may have "
                f"{limits.pending_per_person_max:,}: stop some, or wait until some have started."
            )
            raise RequestRefused(429, sentence)
        if projects >= limits.pending_per_project_max:
            sentence = (
                f"Project {project} has {projects:,} pending workloads, and one project may have "
                f"{limits.pending_per_project_max:,}: stop some, or wait until some have started."
            )
            raise RequestRefused(429, sentence)
