"""The control thread: steps when something happened or is due, and answers questions between steps.

`clock` is a timeline that never jumps: what is due is due by it. The wait for it is cut into pieces of
LOOK_S_MOST: a wait doesn't count the time for which the machine is suspended, and a thread that looks is
alive.

Nothing else ever touches the cluster. A step that fails (the disk is full, a fault of ours) costs the
picture, not the pool: a new control begins with the whole picture again, after a pause.
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
PAUSE_MOST_S = 10.0
LONG_S = 0.003
"""A turn that takes longer is followed by a rest as long, up to REST_S_MOST."""
REST_S_MOST = 0.05
STUCK_AFTER_S = 30.0
"""A thread without progress for this long counts as stuck."""
LOOK_S_MOST = 1.0
ASKS_MOST = 1024


class ControlUnavailable(Exception):
    """The control loop can't answer; the sentence says why."""


class BeginAgain(Exception):
    """Raised where a step begins: a new control is to take over with the whole picture."""


class ControlHooks(Protocol):
    """What is done around steps."""

    def connect(self) -> Control:
        """A new control, before its first step."""
        ...

    def begins(self, now_s: float) -> None:
        """A step begins. Raises BeginAgain instead of it."""
        ...

    def stepped(self, control: Control, now_s: float) -> None:
        """A step was carried out whole."""
        ...

    def rests(self, control: Control, now_s: float) -> float | None:
        """Nothing is to be done: do what can wait, and say when to come again."""
        ...


class ControlThread:
    """The thread."""

    def __init__(
        self, household: ControlHooks, clock: Callable[[], float], *, between_s: float = 0.0
    ) -> None:
        """`between_s`: steps begin no closer to one another; what happens meanwhile is taken in together."""
        self._household = household
        self._clock = clock
        self._between_s = between_s
        self._next_step_s = -float("inf")  # on the timeline, as all moments at which something is due
        self._control: Control | None = None
        self._woken = threading.Event()
        self._has_facts = True
        self._closing = False
        self._asks: deque[tuple[Callable[[Cluster], Any], Future[Any]]] = deque()
        self._pause_s = PAUSE_FIRST_S
        self._not_before_s = 0.0
        self._busy_since_s: float | None = None  # on the monotonic clock, as the two below
        self._looked_s = self._stepped_s = time.monotonic()
        self._facts_since_s: float | None = None
        self.failure: str | None = "It has just been started."
        self._thread = threading.Thread(target=self._run, name="weir-control", daemon=True)

    def start(self) -> None:
        """Begin, with what is there already."""
        self._woken.set()
        self._thread.start()

    def wake(self) -> None:
        """There is something to take in. From any thread."""
        if not self._has_facts:  # else it comes anyway: waking a thread costs as much as a fact
            self._facts_since_s = time.monotonic()
            self._has_facts = True
            self._woken.set()

    def ask(self, fn: Callable[[Cluster], Answer]) -> "Future[Answer]":
        """Have a question answered on the control thread after what happened until now was taken in.

        `fn` only reads. The future fails with NotNow while there is no control.
        """
        future: Future[Answer] = Future()
        if self._closing or len(self._asks) >= ASKS_MOST:
            future.set_exception(ControlUnavailable("The control loop is too busy or has ended."))
            return future
        self._asks.append((fn, future))
        self._woken.set()
        return future

    def close(self) -> None:
        """End the thread after the step it is in."""
        self._closing = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        self._answer_asks()

    @property
    def since_step_s(self) -> float:
        """The age of the last step that was carried out whole."""
        return time.monotonic() - self._stepped_s

    @property
    def trouble(self) -> str | None:
        """Why it doesn't decide now; None if it does."""
        busy_s, facts_s, now_s = self._busy_since_s, self._facts_since_s, time.monotonic()
        if not self._thread.is_alive():
            return "The control loop has ended."
        if busy_s is not None and now_s - busy_s > STUCK_AFTER_S:
            return f"The control loop has been in one step for {span(now_s - busy_s)}."
        if busy_s is None and now_s - self._looked_s > STUCK_AFTER_S:
            return f"The control loop hasn't looked for work for {span(now_s - self._looked_s)}."
        if self.failure is None and facts_s is not None and now_s - facts_s > STUCK_AFTER_S:
            return f"The control loop hasn't taken in what happened {span(now_s - facts_s)} ago."
        return self.failure

    # The thread

    def _run(self) -> None:
        due_s: float | None = None
        while not self._closing:
            self._wait(due_s)
            self._woken.clear()
            if self._is_closing():
                break
            started = time.perf_counter()
            due_s = self._turn()
            took_s = time.perf_counter() - started
            if took_s > LONG_S:  # what happens meanwhile is taken in together, and others get to run
                time.sleep(min(took_s, REST_S_MOST))

    def _wait(self, due_s: float | None) -> None:
        """Wait until something is due or this thread is woken."""
        while True:
            self._looked_s = time.monotonic()
            left_s = LOOK_S_MOST if due_s is None else due_s - self._clock()
            if left_s <= 0 or self._woken.wait(min(left_s, LOOK_S_MOST)):
                return

    def _is_closing(self) -> bool:
        """Asked anew: another thread says so."""
        return self._closing

    def _turn(self) -> float | None:
        """One turn; when the next one is due."""
        self._busy_since_s = time.monotonic()
        try:
            if self._control is None:
                if self._clock() < self._not_before_s:
                    self._answer_asks()
                    return self._not_before_s
                self._control = self._household.connect()
                self._has_facts = True
            wakes_s, now_s = self._control.wakes_s, self._clock()
            if self._has_facts or (wakes_s is not None and wakes_s <= now_s):
                if now_s < self._next_step_s:
                    self._answer_asks()
                    return self._next_step_s
                self._next_step_s = now_s + self._between_s
                self._facts_since_s = None
                self._has_facts = False
                self._step(self._control)
            self._answer_asks()
            return self._earliest(self._control)
        except BeginAgain:
            self._control = None
            self._has_facts = True
            return self._clock()
        except OSError as error:
            return self._broken(str(error), None)
        except Exception as error:  # noqa: BLE001 - whatever it was, the pool must go on
            return self._broken(f"{type(error).__name__} in the control loop", error)
        finally:
            self._looked_s = time.monotonic()
            self._busy_since_s = None

    def _step(self, control: Control) -> None:
        now_s = self._clock()
        self._household.begins(now_s)
        control.step()
        self._household.stepped(control, now_s)
        self._stepped_s = time.monotonic()
        if self.failure is not None:
            self.failure = None
            self._pause_s = PAUSE_FIRST_S

    def _earliest(self, control: Control) -> float | None:
        times = (control.wakes_s, self._household.rests(control, self._clock()))
        return min((time_s for time_s in times if time_s is not None), default=None)

    def _broken(self, sentence: str, error: Exception | None) -> float:
        _LOG.error("control_broken", why=sentence, again_in_s=self._pause_s, exc_info=error)
        self.failure = sentence
        self._control = None
        self._answer_asks()
        self._not_before_s = self._clock() + self._pause_s
        self._pause_s = min(PAUSE_MOST_S, self._pause_s * 2)
        return self._not_before_s

    def _answer_asks(self) -> None:
        for _ in range(len(self._asks)):
            fn, future = self._asks.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            if self._control is None or self._closing:
                future.set_exception(ControlUnavailable(self.failure or "The server is being stopped."))
                continue
            try:
                future.set_result(fn(self._control.cluster))
            except Exception as error:  # noqa: BLE001 - it is told to whoever asked
                future.set_exception(error)
