"""State that decisions are made from, for other threads: they read it while the control thread waits."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Protocol, TypeVar

from weir.engine.cache import EngineCache
from weir.model.policy import Policy
from weir.service.control_thread import ControlThread, ControlUnavailable
from weir.state.branch import branch
from weir.state.cluster import Cluster
from weir.state.person_admission import Person

ANSWER_S_MOST = 30.0
"""Time that the control thread may take for one answer."""
TURN_S = 0.0015
"""Time for which the control thread waits for further reads, unless it has work; a longer read ends it."""
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class DecisionState:
    """State of a cluster between two decisions. Its readers change nothing but what the cache keeps."""

    cluster: Cluster
    cache: EngineCache
    policy: Policy
    now_s: float

    def branch(self, names: Iterable[str] = (), person: Person | None = None) -> Cluster:
        """Return a branch on which these workloads may end, and work of one person may be submitted."""
        return branch(self.cluster, names, person, with_usage=self.policy.usage.k > 0)

    def cache_for(self, branched: Cluster) -> EngineCache:
        """Return a cache for decisions on a branch. What is tried there doesn't count as usual."""
        branched.mix = self.cluster.mix.frozen()
        return self.cache.branch(self.cluster, branched, self.policy)


class StateReader(Protocol):
    """Calls a function where the state belongs, and returns its result."""

    def __call__(self, read: Callable[[DecisionState], Found], /) -> Found:
        """Return what `read` returns.

        Raises:
            ControlUnavailable: nothing can be read now.
        """
        ...


class _Turn:
    """Time in which a worker thread reads the state, while the control thread waits; no state: it is over."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.state: DecisionState | None = None
        self.is_over = False


class _TurnReader:
    """Reads in turns: many short reads are as many changes of threads, which cost more than they do."""

    def __init__(self, thread: ControlThread) -> None:
        self._thread = thread
        self._turn = _Turn()

    def end(self) -> None:
        """Let the control thread go on."""
        self._turn.is_over = True
        self._thread.nudge()

    def __call__(self, read: Callable[[DecisionState], Found], /) -> Found:
        """Read, in the present turn if it isn't over."""
        with self._turn.lock:
            if self._turn.state is not None:
                return read(self._turn.state)
        self._turn = _Turn()
        return self._read_first(self._turn, read)

    def _read_first(self, turn: _Turn, read: Callable[[DecisionState], Found]) -> Found:
        found: Future[Found] = Future()

        def answer(state: DecisionState) -> None:
            try:
                found.set_result(read(state))
            except Exception as error:  # noqa: BLE001 - the caller receives it
                found.set_exception(error)

        def hold(_: Cluster) -> None:
            state, until_s = _state_of(self._thread), monotonic() + TURN_S
            turn.state = state
            answer(state)
            if not turn.is_over and (left_s := until_s - monotonic()) > 0:
                self._thread.wait_for_work(left_s)
            with turn.lock:
                turn.state = None

        def failed(held: Future[None]) -> None:
            if not held.cancelled() and (error := held.exception()) is not None and not found.done():
                found.set_exception(error)

        query = self._thread.query(hold)
        query.add_done_callback(failed)
        try:
            return found.result(ANSWER_S_MOST)
        except TimeoutError:
            query.cancel()
            turn.is_over = True
            raise ControlUnavailable("The control loop is too busy to answer now.") from None


@contextmanager
def reader_of(thread: ControlThread) -> Iterator[StateReader]:
    """Yield a reader for one worker thread, which waits for the answers."""
    reader = _TurnReader(thread)
    try:
        yield reader
    finally:
        reader.end()


def _state_of(thread: ControlThread) -> DecisionState:
    control = thread.control
    assert control is not None, "queries are answered by the control thread"
    return DecisionState(control.cluster, control.cache, control.policy, thread.now_s)
