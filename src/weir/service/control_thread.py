"""Control thread: runs steps for new facts and due timers, and answers queries between steps.

`clock` is a timeline that never jumps; timers follow it. A wait is cut into pieces of LOOK_S_MAX, because
waits don't count the time for which the machine is suspended. Regular checks also show that the thread is
alive.

Only this thread touches the cluster. A failed step (the disk is full, a bug) costs the state, not the
pool. After a pause a new control begins with the whole state again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from structlog import get_logger

from weir.control.loop import Control
from weir.model.resources import span
from weir.state.cluster import Cluster

Answer = TypeVar("Answer")
_LOG = get_logger(__name__)
PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 10.0
LONG_S = 0.003
"""Duration from which on a turn is followed by an equally long rest, up to REST_S_MAX."""
REST_S_MAX = 0.05
STUCK_AFTER_S = 30.0
"""Time without progress after which a thread counts as stuck."""
LOOK_S_MAX = 1.0
ASKS_MAX = 1024


class ControlUnavailable(Exception):
    """The control loop can't answer; the sentence gives the reason."""


class BeginAgain(Exception):
    """Raised at the start of a step: a new control has to start with the whole state."""


class ControlHooks(Protocol):
    """Hooks around the steps of a control thread."""

    def connect(self) -> Control:
        """Create a control, before its first step."""
        ...

    def before_step(self, now_s: float) -> None:
        """Prepare a step; raise BeginAgain if a new control has to replace the present one."""
        ...

    def after_step(self, control: Control, now_s: float) -> None:
        """Do the work that follows a completed step."""
        ...

    def on_idle(self, control: Control, now_s: float) -> float | None:
        """Do work that can wait, and return the time of the next call."""
        ...


class ControlThread:
    """Runs control in a thread, and answers queries between its steps."""

    def __init__(self, hooks: ControlHooks, clock: Callable[[], float], *, between_s: float = 0.0) -> None:
        """Create the thread. `between_s` is the minimum time between steps; facts are batched meanwhile.

        After a pause of this time a second step may follow the first one at once. So a session needn't wait:
        the first fact is its Job, the second one its pod.
        """
        self._hooks = hooks
        self._clock = clock
        self._between_s = between_s
        self._next_step_s = -float("inf")  # on the timeline, as are all due times
        self._control: Control | None = None
        self._woken = threading.Event()
        self._begun = threading.Event()
        self._has_facts = True
        self._closing = False
        self._queries: deque[tuple[Callable[[Cluster], Any], Future[Any]]] = deque()
        self._pause_s = PAUSE_FIRST_S
        self._not_before_s = 0.0
        self._busy_since_s: float | None = None  # monotonic time, as in the two fields below
        self._looked_s = self._stepped_s = time.monotonic()
        self._facts_since_s: float | None = None
        self.failure: str | None = "The control loop has just started."
        self._thread = threading.Thread(target=self._run, name="weir-control", daemon=True)

    def start(self) -> None:
        """Start the thread with the existing facts."""
        self._woken.set()
        self._thread.start()

    def wait_begun(self, most_s: float) -> None:
        """Wait until the state is built for the first time, or building it failed. Any other thread."""
        self._begun.wait(most_s)

    def wake(self) -> None:
        """Wake the thread for new facts. Any thread may call this."""
        if not self._has_facts:  # else it is awake: a wake-up costs as much as a fact
            self._facts_since_s = time.monotonic()
            self._has_facts = True
            self._woken.set()

    def query(self, fn: Callable[[Cluster], Answer]) -> "Future[Answer]":
        """Run a query on the control thread after all facts up to now were processed.

        `fn` only reads. The future fails with ControlUnavailable while there is no control.
        """
        future: Future[Answer] = Future()
        if self._closing or len(self._queries) >= ASKS_MAX:
            future.set_exception(ControlUnavailable("The control loop is too busy or has ended."))
            return future
        self._queries.append((fn, future))
        self._woken.set()
        return future

    def close(self) -> None:
        """End the thread after its current step."""
        self._closing = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        self._fail_queries()

    @property
    def control(self) -> Control | None:
        """Return the control, for queries; None while there is none."""
        return self._control

    @property
    def now_s(self) -> float:
        """Return the time on its timeline."""
        return self._clock()

    @property
    def since_step_s(self) -> float:
        """Return the age of the last complete step."""
        return time.monotonic() - self._stepped_s

    @property
    def trouble(self) -> str | None:
        """Return why control makes no decisions now; None if it does."""
        busy_s, facts_s, now_s = self._busy_since_s, self._facts_since_s, time.monotonic()
        if not self._thread.is_alive():
            return "The control loop has ended."
        if busy_s is not None and now_s - busy_s > STUCK_AFTER_S:
            return f"The control loop has been in one step for {span(now_s - busy_s)}."
        if busy_s is None and now_s - self._looked_s > STUCK_AFTER_S:
            return f"The control loop hasn't looked for work for {span(now_s - self._looked_s)}."
        if self.failure is None and facts_s is not None and now_s - facts_s > STUCK_AFTER_S:
            return f"The control loop hasn't processed facts for {span(now_s - facts_s)}."
        return self.failure

    # The control thread

    def _run(self) -> None:
        due_s: float | None = None
        while not self._closing:
            self._wait(due_s)
            self._woken.clear()
            if self._is_closing():
                break
            started = time.perf_counter()
            due_s = self._run_once()
            took_s = time.perf_counter() - started
            if took_s > LONG_S:  # a pause, in which facts are batched and other threads run
                time.sleep(min(took_s, REST_S_MAX))

    def _wait(self, due_s: float | None) -> None:
        """Wait until something is due or this thread is woken."""
        while True:
            self._looked_s = time.monotonic()
            left_s = LOOK_S_MAX if due_s is None else due_s - self._clock()
            if left_s <= 0 or self._woken.wait(min(left_s, LOOK_S_MAX)):
                return

    def _is_closing(self) -> bool:
        """Return True if the thread has to end. The flag is read here because another thread sets it."""
        return self._closing

    def _run_once(self) -> float | None:
        """Run one iteration; return the time of the next."""
        self._busy_since_s = time.monotonic()
        asked = len(self._queries)  # queries that came before this step; later ones need a later step
        try:
            if self._control is None:
                if self._clock() < self._not_before_s:
                    self._fail_queries()
                    return self._not_before_s
                self._control = self._hooks.connect()
                self._has_facts = True
            wakes_s, now_s = self._control.wakes_s, self._clock()
            if self._has_facts or (wakes_s is not None and wakes_s <= now_s):
                if now_s < self._next_step_s:
                    return self._next_step_s
                self._next_step_s = max(self._next_step_s + self._between_s, now_s)
                self._has_facts = False
                self._facts_since_s = None  # after the flag is cleared, so that a fact in between is noticed
                self._step(self._control)
            self._answer_queries(self._control.cluster, asked)
            return self._next_due_s(self._control)
        except BeginAgain:
            self._control = None
            self._has_facts = True
            return self._clock()
        except OSError as error:
            return self._handle_failure(str(error), None)
        except Exception as error:  # noqa: BLE001 - whatever it was, the pool must go on
            return self._handle_failure(f"{type(error).__name__} in the control loop", error)
        finally:
            self._begun.set()
            self._looked_s = time.monotonic()
            self._busy_since_s = None

    def _step(self, control: Control) -> None:
        now_s = self._clock()
        self._hooks.before_step(now_s)
        control.step()
        self._hooks.after_step(control, now_s)
        self._stepped_s = time.monotonic()
        if self.failure is not None:
            self.failure = None
            self._pause_s = PAUSE_FIRST_S

    def _next_due_s(self, control: Control) -> float | None:
        times = (control.wakes_s, self._hooks.on_idle(control, self._clock()))
        return min((time_s for time_s in times if time_s is not None), default=None)

    def _handle_failure(self, sentence: str, error: Exception | None) -> float:
        _LOG.error("control_broken", why=sentence, again_in_s=self._pause_s, exc_info=error)
        self.failure = sentence
        self._control = None
        self._fail_queries()
        self._not_before_s = self._clock() + self._pause_s
        self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)
        return self._not_before_s

    def _answer_queries(self, cluster: Cluster, number: int) -> None:
        """Answer the first queries; the others wait for the next turn."""
        for _ in range(number):
            fn, future = self._queries.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(fn(cluster))
            except Exception as error:  # noqa: BLE001 - the caller receives it
                future.set_exception(error)

    def _fail_queries(self) -> None:
        """Fail all queued queries, because no control runs."""
        sentence = "The server is being stopped." if self._closing else self.failure
        for _ in range(len(self._queries)):
            _, future = self._queries.popleft()
            if future.set_running_or_notify_cancel():
                future.set_exception(ControlUnavailable(sentence or "The server is being stopped."))
