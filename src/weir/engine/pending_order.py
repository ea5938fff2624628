"""Pending order: pending workloads by predicted run time, size and dominant share, kept between cycles.

A class of workloads enters where its project's share puts it among its peers: classes of equal requests
whose run times are predicted from the same samples. From one cycle to the next only projects whose usage,
share or requests changed are entered again, and learned run times give each group a new prediction.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

from weir.engine.fair_share_tree import FairShareTree
from weir.engine.feasibility_cache import FeasibilityCache
from weir.engine.queue_order import RuntimeKeyOrder
from weir.engine.runtime_order import RuntimeOrder
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Size
from weir.state.runtime_history import RuntimeKey

Entry = tuple[float, float, str, EquivalenceClass, int]
"""A pending workload: weighted share of its project with its request, age, name, class and position in it."""
PeerKey = tuple[object, ...]
_UNKNOWN = -1


class Peers:
    """Classes whose keys differ in share, age and name alone, in rising order.

    Attributes:
        key: what they have in common.
        entries: their entries, at least one; no two have the same name.
        runtime: ln of the mean remaining run time.
        size: ln of the devices.
    """

    __slots__ = ("_like", "_ran_s", "_samples", "entries", "key", "runtime", "size")

    def __init__(self, key: PeerKey, like: RuntimeKey, ran_s: float, runtime: float, size: float) -> None:
        self.key = key
        self.entries: list[Entry] = []
        self.runtime, self.size = runtime, size
        self._like, self._ran_s = like, ran_s
        self._samples = like.ended

    def branch(self) -> "Peers":
        """Return a copy whose entries may change."""
        copy = Peers(self.key, self._like, self._ran_s, self.runtime, self.size)
        copy.entries, copy._samples = self.entries.copy(), self._samples
        return copy

    @property
    def of(self) -> EquivalenceClass:
        """Return one of them, for all that they have in common."""
        return self.entries[0][3]

    def predict(self, order: RuntimeOrder) -> bool:
        """Update the run time; return False if they may no longer have one prediction in common."""
        self.runtime = order.runtime_term(self._like, self._ran_s)
        return self._samples is None or self._like.ended is self._samples

    def key_of(self, entry: Entry) -> RuntimeKeyOrder:
        """Return the key by which an entry compares with those of other peers."""
        share, submitted_s, name, _, _ = entry
        return share + self.runtime + self.size, share, submitted_s, name


class PendingOrder:
    """Entries of all pending classes, by size and peers.

    Attributes:
        peers: groups of peers by the number of pods of each shape.
        claiming: projects whose quota covers some of their pending workloads.
        ranked: projects whose pending workloads have different priorities.
    """

    def __init__(
        self, cluster: Cluster, policy: Policy, feasibility: FeasibilityCache, tree: FairShareTree
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._feasibility = feasibility
        self._tree = tree
        self._forget()

    def _forget(self) -> None:
        queues = len(self._tree.versions)
        self.peers: dict[Size, dict[PeerKey, Peers]] = {}
        self.claiming: set[int] = set()
        self.ranked: set[int] = set()
        self._entered: dict[int, list[tuple[Peers, Entry]]] = {}  # by project
        self._touched, self._shared = [_UNKNOWN] * queues, [_UNKNOWN] * queues  # versions of usage and share
        self._believed = self._learned = _UNKNOWN  # versions of the learned run times

    def branch(self, cluster: Cluster, feasibility: FeasibilityCache, tree: FairShareTree) -> "PendingOrder":
        """Return a copy for a branch of the cluster with the same queues."""
        copy = PendingOrder(cluster, self._policy, feasibility, tree)
        own = {peers: peers.branch() for peers in self.groups()}
        copy.peers = {
            size: {key: own[peers] for key, peers in of_size.items()} for size, of_size in self.peers.items()
        }
        copy.claiming, copy.ranked = self.claiming.copy(), self.ranked.copy()
        copy._entered = {
            project: [(own[peers], entry) for peers, entry in entered]
            for project, entered in self._entered.items()
        }
        copy._touched, copy._shared = self._touched.copy(), self._shared.copy()
        copy._believed, copy._learned = self._believed, self._learned
        return copy

    def groups(self) -> Iterator[Peers]:
        """Yield all groups of peers."""
        for of_size in self.peers.values():
            yield from of_size.values()

    def sync(self, order: RuntimeOrder) -> None:
        """Update the entries of projects that changed, and the predictions if run times were learned."""
        runtimes = self._cluster.runtimes
        learned, believed = runtimes.version, runtimes.believed
        predicted = learned == self._learned or all(peers.predict(order) for peers in self.groups())
        if believed != self._believed or not predicted:
            self._forget()
        self._learned, self._believed = learned, believed
        touched, shared = self._cluster.ledger.touched, order.share_versions()
        if touched == self._touched and shared == self._shared:
            return
        changed = [
            queue
            for queue, (used, share) in enumerate(zip(touched, shared, strict=True))
            if used != self._touched[queue] or share != self._shared[queue]
        ]
        self._touched, self._shared = touched.copy(), shared.copy()
        for project in changed:
            self._enter(project, order, _first)

    def update(
        self, projects: Iterable[int], order: RuntimeOrder, served_of: Callable[[EquivalenceClass], int]
    ) -> None:
        """Enter projects as this cycle leaves them; the next one enters them again."""
        for project in projects:
            self._enter(project, order, served_of)
            self._touched[project] = _UNKNOWN

    def _enter(self, project: int, order: RuntimeOrder, served_of: Callable[[EquivalenceClass], int]) -> None:
        for peers, entry in self._entered.pop(project, ()):
            del peers.entries[bisect_left(peers.entries, entry)]
            if not peers.entries:
                self._remove(peers, entry[3].wants[1])
        self.claiming.discard(project)
        self.ranked.discard(project)
        classes = self._cluster.waiting_of.get(project)
        if classes is None:
            return
        if self._feasibility.owners(project):
            self.claiming.add(project)
        if self._policy.aging or len({of.first.priority for of in classes}) > 1:
            self.ranked.add(project)
        entered = self._entered[project] = []
        for of in classes:
            at = served_of(of)
            if at < len(of.members):
                submitted_s, name, job = of.members[at]
                entry = order.share_term(project, of.step.request), submitted_s, name, of, at
                peers = self._peers_of(of, job, order)
                insort(peers.entries, entry)
                entered.append((peers, entry))

    def _peers_of(self, of: EquivalenceClass, job: Job, order: RuntimeOrder) -> Peers:
        runtime = order.runtime_term(job.like, job.ran_s)  # finds the samples
        like = job.like.names[0] if job.like.ended is None else job.like.ended
        devices = job.devices_milli, job.is_elastic
        key = of.wants, self._feasibility.affinity(job), devices, like, job.ran_s
        of_size = self.peers.setdefault(of.wants[1], {})
        found = of_size.get(key)
        if found is None:
            found = of_size[key] = Peers(key, job.like, job.ran_s, runtime, order.size_term(job))
        return found

    def _remove(self, peers: Peers, size: Size) -> None:
        del self.peers[size][peers.key]
        if not self.peers[size]:
            del self.peers[size]


def _first(_of: EquivalenceClass) -> int:
    """Return the position of the member of a class that is served first in a cycle."""
    return 0
