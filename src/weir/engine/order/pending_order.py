"""Pending order: pending workloads by predicted run time, size and dominant share, kept between cycles.

Equivalence classes with equal requests form one sorted list. A list is re-sorted only when a cycle reads it,
and only for projects whose usage, share or requests changed. Peers are classes whose run times are predicted
from the same samples; a new sample gives all of them a new prediction.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from weir.engine.order.queue_order import RuntimeKeyOrder
from weir.engine.order.runtime_order import RuntimeOrder
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.model.policy import AffinityRules, Policy
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Size, Wants
from weir.state.runtime_history import RuntimeKey
from weir.state.versions import Versions, changed_since, versions_of

Entry = tuple[float, float, str, EquivalenceClass, int]
"""A pending workload: weighted share of its project with its request, age, name, class and position in it."""
ServedOf = Callable[[EquivalenceClass], int]
"""Number of members of a class that the cycle has served."""
LineKey = tuple[Wants, AffinityRules]
PeerKey = tuple[object, ...]
_UNKNOWN = -1


class Peers:
    """Classes whose keys differ only in share, age and name, in ascending order; never empty."""

    __slots__ = ("_like", "_ran_s", "_samples", "entries", "key", "runtime", "size")

    def __init__(self, key: PeerKey, like: RuntimeKey, ran_s: float, runtime: float, size: float) -> None:
        self.key = key  # the part of the key that all entries share
        self.entries: list[Entry] = []  # names are unique
        self.runtime, self.size = runtime, size  # ln of the mean remaining run time, and of the devices
        self._like, self._ran_s = like, ran_s
        self._samples = like.ended

    @property
    def queued(self) -> EquivalenceClass:
        """Return the class of the first entry, for the values that all entries share."""
        return self.entries[0][3]

    def copy(self) -> "Peers":
        """Return a copy to which entries may be added."""
        copy = Peers(self.key, self._like, self._ran_s, self.runtime, self.size)
        copy.entries, copy._samples = self.entries.copy(), self._samples
        return copy

    def predict(self, order: RuntimeOrder) -> bool:
        """Update the run time; return False if the classes may no longer share one prediction."""
        self.runtime = order.runtime_term(self._like, self._ran_s)
        return self._samples is None or self._like.ended is self._samples

    def key_of(self, entry: Entry) -> RuntimeKeyOrder:
        """Return the key by which an entry compares with those of other peers."""
        share, submitted_s, name, _, _ = entry
        return share + self.runtime + self.size, share, submitted_s, name


class RequestLine:
    """Classes with equal requests, and sorted entries of those read so far; never empty."""

    __slots__ = ("_entered", "_learned", "_peers", "_usable_classes", "classes", "stale")

    def __init__(self) -> None:
        self.classes: dict[int, list[EquivalenceClass]] = {}  # by project
        self.stale: set[int] = set()  # projects whose classes have to be entered again
        self._peers: dict[PeerKey, Peers] = {}
        self._entered: dict[int, list[tuple[PeerKey, Entry]]] = {}  # by project
        self._usable_classes = self._learned = (
            _UNKNOWN  # versions of the learned run times at the last update
        )

    def copy(self) -> "RequestLine":
        """Return a copy that may change."""
        copy = RequestLine()
        copy.classes, copy.stale, copy._entered = self.classes.copy(), self.stale.copy(), self._entered.copy()
        copy._peers = {key: peers.copy() for key, peers in self._peers.items()}
        copy._usable_classes, copy._learned = self._usable_classes, self._learned
        return copy

    @property
    def queued(self) -> EquivalenceClass:
        """Return the class of the first entry, for the values that all entries share."""
        return next(iter(self.classes.values()))[0]

    def peers(self, cluster: Cluster, order: RuntimeOrder, served_of: ServedOf) -> Iterable[Peers]:
        """Return the groups of peers, in order."""
        self._predict(cluster, order)
        for project in sorted(self.stale):
            before = self._entered.pop(project, ())
            for key, entry in before:
                peers = self._peers[key]
                del peers.entries[bisect_left(peers.entries, entry)]
                if not peers.entries:
                    del self._peers[key]
            if project in self.classes:
                previous = {entry[2]: key for key, entry in before}
                self._entered[project] = self._enter(project, order, served_of, previous)
        self.stale.clear()
        return self._peers.values()

    def _predict(self, cluster: Cluster, order: RuntimeOrder) -> None:
        """Update the predictions, or forget all entries if some peers no longer share a prediction."""
        learned, usable_classes = cluster.runtimes.version, cluster.runtimes.usable_classes
        are_current = learned == self._learned or all(peers.predict(order) for peers in self._peers.values())
        if usable_classes != self._usable_classes or not are_current:
            self._peers.clear()
            self._entered.clear()
            self.stale = set(self.classes)
        self._learned, self._usable_classes = learned, usable_classes

    def _enter(
        self, project: int, order: RuntimeOrder, served_of: ServedOf, previous: dict[str, PeerKey]
    ) -> list[tuple[PeerKey, Entry]]:
        """Enter a project's classes in their peers; `previous` has the peers of earlier entries by name."""
        entered = []
        for queued in self.classes[project]:
            index = served_of(queued)
            if index < len(queued.members):
                submitted_s, name, job = queued.members[index]
                entry = order.share_term(project, queued.step.request), submitted_s, name, queued, index
                peers = self._peers_of(job, order, previous.get(name))
                insort(peers.entries, entry)
                entered.append((peers.key, entry))
        return entered

    def _peers_of(self, job: Job, order: RuntimeOrder, before: PeerKey | None) -> Peers:
        if before is not None and before[-1] == job.ran_s and before in self._peers:
            return self._peers[before]  # their prediction in common still holds
        runtime = order.runtime_term(job.like, job.ran_s)  # also finds the samples, which the next line reads
        like = job.like.names[0] if job.like.ended is None else job.like.ended
        key = job.devices_milli, job.is_elastic, like, job.ran_s
        peers = self._peers.get(key)
        if peers is None:
            peers = self._peers[key] = Peers(key, job.like, job.ran_s, runtime, order.size_term(job))
        return peers


class PendingOrder:
    """Lines of all pending classes."""

    def __init__(self, cluster: Cluster, policy: Policy, feasibility: FeasibilityCache) -> None:
        self._cluster = cluster
        self._policy = policy
        self._feasibility = feasibility
        self.lines: dict[Size, dict[LineKey, RequestLine]] = {}  # by the number of pods of each shape
        self.claiming: set[int] = set()  # projects whose quota covers some of their pending workloads
        self.ranked: set[int] = set()  # projects whose pending workloads have different priorities
        self._lines_of: dict[int, set[LineKey]] = {}  # by project
        self._touched = versions_of(0)  # versions of usage and requests at the last update
        self._shared = versions_of(0)  # versions of fair shares at the last update
        self._order: RuntimeOrder | None = None  # the order that last compared shares

    def branch(self, branched: Cluster, feasibility: FeasibilityCache) -> "PendingOrder":
        """Return the order of a branch of the cluster; projects with classes of its own are entered again."""
        copy = PendingOrder(branched, self._policy, feasibility)
        copy.lines = {
            size: {key: line.copy() for key, line in of_size.items()} for size, of_size in self.lines.items()
        }
        copy.claiming, copy.ranked = self.claiming.copy(), self.ranked.copy()
        copy._lines_of, copy._touched, copy._shared = (self._lines_of.copy(), self._touched[:], self._shared)
        own, theirs = self._cluster.waiting_of, branched.waiting_of
        if copy._touched:
            for project in own.keys() | theirs.keys():
                if own.get(project) is not theirs.get(project):
                    copy._touched[project] = _UNKNOWN
        return copy

    def sync(self) -> None:
        """Update the classes of projects that changed."""
        touched = self._cluster.ledger.touched
        for project in _changed(touched, self._touched):
            self._update(project)
        self._touched = touched[:]

    def all_lines(self) -> Iterator[RequestLine]:
        """Yield every line."""
        for of_size in self.lines.values():
            yield from of_size.values()

    def peers_of(self, line: RequestLine, order: RuntimeOrder, served_of: ServedOf) -> Iterable[Peers]:
        """Return the groups of peers of a line, by the usage and fair shares of a cycle."""
        if order is not self._order:
            shared = order.overlay.share_versions()
            self._note_stale(_changed(shared, self._shared))
            self._order, self._shared = order, shared[:]
        return line.peers(self._cluster, order, served_of)

    def note_charged(self, projects: Iterable[int]) -> None:
        """Enter projects with their usage in this cycle; the next cycle enters them again."""
        projects = list(projects)
        self._note_stale(projects)
        for project in projects:
            self._touched[project] = _UNKNOWN

    def _note_stale(self, projects: Iterable[int]) -> None:
        for project in projects:
            for key in self._lines_of.get(project, ()):
                self.lines[key[0][1]][key].stale.add(project)

    def _update(self, project: int) -> None:
        classes, before = self._cluster.waiting_of.get(project), self._lines_of.pop(project, set())
        if classes is None and not before:
            return  # the usual case: nothing changed
        now = self._by_line(classes or ())
        for key in sorted(before.difference(now), key=itemgetter(0)):
            self._leave(key, project)
        for key, some in now.items():
            of_size = self.lines.setdefault(key[0][1], {})
            line = of_size.get(key)
            if line is None:
                line = of_size[key] = RequestLine()
            line.classes[project] = some
            line.stale.add(project)
        if now:
            self._lines_of[project] = set(now)
        _set(self.claiming, project, bool(now and self._feasibility.owners(project)))
        several = classes is not None and len(classes) > 1
        priorities = {queued.first.priority for queued in classes or ()} if several else ()
        _set(self.ranked, project, len(priorities) > 1 or bool(now and self._policy.aging))

    def _leave(self, key: LineKey, project: int) -> None:
        of_size = self.lines[key[0][1]]
        del of_size[key].classes[project]
        of_size[key].stale.add(project)
        if not of_size[key].classes:
            del of_size[key]
            if not of_size:
                del self.lines[key[0][1]]

    def _by_line(self, classes: Iterable[EquivalenceClass]) -> dict[LineKey, list[EquivalenceClass]]:
        by_line: dict[LineKey, list[EquivalenceClass]] = {}
        for queued in classes:
            by_line.setdefault((queued.wants, self._feasibility.affinity(queued.first)), []).append(queued)
        return by_line


def _changed(now: Versions, before: Versions) -> list[int]:
    """Return the positions of the versions that differ from the previous ones; all without previous ones."""
    return changed_since(now, before) if before else list(range(len(now)))


def _set(projects: set[int], project: int, is_in: bool) -> None:
    if is_in:
        projects.add(project)
    else:
        projects.discard(project)
