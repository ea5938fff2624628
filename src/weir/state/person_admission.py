"""Admission of workloads under the limits of persons: the first pending ones that fit, in order.

A person's pending workloads in a project are admitted by priority and age. The person's limits have to cover
them together with the running ones. The engine sees only admitted workloads. So no decision can exceed a
limit, and limits cost a cycle nothing. Once a workload doesn't fit a limit, younger ones that need this limit
wait, too: otherwise they could overtake a large workload for ever.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from weir.model.queues import PersonLimits, Queue
from weir.model.workloads import WorkloadType
from weir.state.jobs import Job

Person = tuple[str, str]
"""Project and user."""
PlaceInLine = tuple[int, float, str]
GPUS, RUNNING, SESSIONS = "gpus", "running", "sessions"
_SESSION, _USES_GPUS, _KINDS = 1, 2, 4
"""Bits that mark a workload by the limits it needs: that of sessions, and that of GPUs."""
_NO_LIMIT = 1 << 62


def whole_milli(job: Job) -> int:
    """Return the thousandths of devices that all pods of a workload request."""
    return sum([milli * group.count for milli, group in zip(job.pod_milli, job.spec.groups, strict=True)])


class _Entry:
    """Usage of a workload for the limits of its person."""

    __slots__ = ("is_in_use", "is_session", "is_too_large", "job", "kind", "milli", "place")

    def __init__(self, job: Job, limits: PersonLimits) -> None:
        self.job = job
        self.milli = whole_milli(job)
        self.is_session = job.type is WorkloadType.BUILD
        self.is_in_use = any(job.placed) or job.stopping > 0
        is_bound = bool(
            limits.running or (limits.gpus_milli and self.milli) or (limits.sessions and self.is_session)
        )
        waits = not self.is_in_use and any(job.pending) and not job.held and job.is_ready and is_bound
        self.place: PlaceInLine | None = (-job.priority, job.submitted_s, job.name) if waits else None
        self.kind = (_SESSION if self.is_session else 0) | (_USES_GPUS if self.milli else 0)
        self.is_too_large = bool(limits.gpus_milli) and self.milli > (limits.gpus_milli or 0)


class PersonUsage:
    """Workloads of one person in one project, and the part of the limits that running ones use."""

    def __init__(self, limits: PersonLimits) -> None:
        self.limits = limits
        self.entries: dict[str, _Entry] = {}
        # pending workloads by kind, in order; without those that alone exceed the limit
        self.lines: list[list[PlaceInLine]] = [[] for _ in range(_KINDS)]
        self.admitted: dict[str, Job] = {}
        self.milli = 0
        self.running = 0
        self.sessions = 0

    def add(self, job: Job) -> None:
        """Add a workload to the counts of its person, in the state that it has now."""
        entry = self.entries[job.name] = _Entry(job, self.limits)
        if entry.is_in_use:
            self._use(entry, 1)
        elif entry.place is not None and not entry.is_too_large:
            insort(self.lines[entry.kind], entry.place)

    def remove(self, name: str) -> None:
        """Remove a workload from the counts of its person."""
        entry = self.entries.pop(name)
        if entry.is_in_use:
            self._use(entry, -1)
        elif entry.place is not None and not entry.is_too_large:
            line = self.lines[entry.kind]
            del line[bisect_left(line, entry.place)]

    def _use(self, entry: _Entry, sign: int) -> None:
        self.milli += sign * entry.milli
        self.running += sign
        if entry.is_session:
            self.sessions += sign

    def branch(self, copies: Mapping[Job, Job]) -> "PersonUsage":
        """Return a copy with copies of jobs in their places."""
        branch = PersonUsage(self.limits)
        for entry in self.entries.values():
            branch.add(copies.get(entry.job, entry.job))
        branch.admitted = {name: copies.get(job, job) for name, job in self.admitted.items()}
        return branch

    def next_admitted(self) -> dict[str, Job]:
        """Return the pending workloads that fit into the limits with the running ones.

        The search ends at the first workload of each kind that doesn't fit, so its cost depends on the
        admitted ones only.
        """
        limits = self.limits
        gpus = (limits.gpus_milli or _NO_LIMIT) - self.milli
        running = (limits.running or _NO_LIMIT) - self.running
        sessions = (limits.sessions or _NO_LIMIT) - self.sessions
        admitted: dict[str, Job] = {}
        heads = [(line[0], kind, 0) for kind, line in enumerate(self.lines) if line]
        while heads and running > 0:
            head = min(heads)
            heads.remove(head)
            place, kind, index = head
            entry = self.entries[place[2]]
            if entry.is_session and sessions <= 0:
                continue
            if entry.milli > gpus and entry.milli:
                gpus = 0  # the remaining GPUs are kept for this workload
                continue
            gpus -= entry.milli
            running -= 1
            sessions -= 1 if entry.is_session else 0
            admitted[entry.job.name] = entry.job
            if index + 1 < len(self.lines[kind]):
                heads.append((self.lines[kind][index + 1], kind, index + 1))
        return admitted

    def is_withheld(self, name: str) -> bool:
        """Return True if a pending workload isn't admitted."""
        return self.entries[name].place is not None and name not in self.admitted

    def first_beyond_gpus(self) -> str | None:
        """Return the first pending workload that the limit of GPUs doesn't cover; None if all fit."""
        beyond = [
            next((place for place in line if place[2] not in self.admitted), None)
            for kind, line in enumerate(self.lines)
            if kind & _USES_GPUS
        ]
        places = [place for place in beyond if place is not None]
        return min(places)[2] if places else None

    def in_use(self, limit: str) -> list[str]:
        """Return the names of the workloads that use up a limit: they run or have capacity nominated."""
        kind = {GPUS: _USES_GPUS, SESSIONS: _SESSION}.get(limit, 0)
        return sorted(
            name for name, entry in self.entries.items() if entry.is_in_use and entry.kind & kind == kind
        )


class PersonAdmission:
    """Persons with limits, by project and user; empty without any limit."""

    def __init__(self) -> None:
        self.projects: dict[str, Queue] = {}  # projects with limits of persons
        self.persons: dict[Person, PersonUsage] = {}
        self.person_of: dict[str, Person] = {}  # by workload
        self.changed: dict[str, Job] = {}  # workloads to count again

    def branch(self, copies: Mapping[Job, Job]) -> "PersonAdmission":
        """Return a copy with copies of jobs in their places; the usage of other persons is shared."""
        branch = PersonAdmission()
        branch.projects, branch.persons = self.projects, self.persons.copy()
        branch.person_of, branch.changed = self.person_of.copy(), self.changed.copy()
        for person in {self.person_of[job.name] for job in copies if job.name in self.person_of}:
            branch.persons[person] = self.persons[person].branch(copies)
        return branch

    def names_of(self, person: Person) -> list[str]:
        """Return the workloads of a person that limits bind."""
        usage = self.persons.get(person)
        return [] if usage is None else list(usage.entries)

    def set_queues(self, queues: Iterable[Queue], jobs: dict[str, Job]) -> None:
        """Replace the limits; all workloads are counted again if there are or were any."""
        was_active = bool(self.projects)
        self.projects = {queue.name: queue for queue in queues if queue.limits_persons}
        self.persons.clear()
        self.person_of.clear()
        self.changed = dict(jobs) if was_active or self.projects else {}

    def note(self, job: Job) -> None:
        """Record that a workload has changed; its person is counted at the end of this event."""
        if self.projects:
            self.changed[job.name] = job

    def usage_of(self, job: Job) -> PersonUsage | None:
        """Return the usage of a workload's person; None without limits."""
        person = self.person_of.get(job.name)
        return None if person is None else self.persons[person]

    def count(self, job: Job | None, name: str, touched: dict[Person, None]) -> bool:
        """Count a changed workload (None: it ended), and record the persons affected.

        Returns:
            True if limits bind the workload.
        """
        person = self.person_of.pop(name, None)
        if person is not None:
            self.persons[person].remove(name)
            touched[person] = None
        queue = None if job is None else self.projects.get(job.spec.project)
        if job is None or queue is None:
            return False
        limits = queue.limits_of(job.spec.user)
        if not limits.binds_running:
            return False
        person = (queue.name, job.spec.user)
        if person not in self.persons:
            self.persons[person] = PersonUsage(limits)
        self.persons[person].add(job)
        self.person_of[name] = person
        touched[person] = None
        return True

    def forget_idle(self, touched: Iterable[Person]) -> None:
        """Forget persons without workloads."""
        for person in touched:
            if not self.persons[person].entries:
                del self.persons[person]
