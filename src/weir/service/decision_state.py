"""State of decisions for other threads: they send questions, and the control thread answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from weir.engine.cache import EngineCache
from weir.model.policy import Policy
from weir.service.control_thread import ControlThread, ControlUnavailable
from weir.state.branch import branch
from weir.state.cluster import Cluster
from weir.state.person_admission import Person

ANSWER_S_MAX = 30.0
"""Limit of the time that the control thread takes for one answer."""
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class DecisionState:
    """State of a cluster between two decisions. Its readers change only the cache."""

    cluster: Cluster
    cache: EngineCache
    policy: Policy
    now_s: float

    def branch(self, names: Iterable[str] = (), person: Person | None = None) -> Cluster:
        """Return a branch on which these workloads may end, and work of one person may be submitted."""
        return branch(self.cluster, names, person, with_usage=self.policy.usage.k > 0)

    def cache_for(self, branched: Cluster) -> EngineCache:
        """Return a cache for decisions on a branch. Trials there don't count in the request mix."""
        branched.mix = self.cluster.mix.frozen()
        return self.cache.branch(self.cluster, branched, self.policy)


class StateReader(Protocol):
    """Calls a function on the thread that owns the state, and returns its result."""

    def __call__(self, read: Callable[[DecisionState], Found], /) -> Found:
        """Return the result of `read`.

        Raises:
            ControlUnavailable: nothing can be read now.
        """
        ...


def reader_of(thread: ControlThread) -> StateReader:
    """Return a reader for worker threads, which wait for the answer."""

    def ask(read: Callable[[DecisionState], Found], /) -> Found:
        def look(cluster: Cluster) -> Found:
            control = thread.control
            assert control is not None, "queries are answered by the control thread"
            return read(DecisionState(cluster, control.cache, control.policy, thread.now_s))

        future = thread.query(look)
        try:
            return future.result(ANSWER_S_MAX)
        except TimeoutError:
            future.cancel()
            raise ControlUnavailable("The control loop is too busy to answer now.") from None

    return ask
