"""The control loop: facts come in, the engine decides, effects go out; the same code for every backend.

Its state is a copy and can be lost: a new one is built from the backend's relist. Its own events (a pod is
assigned, is being stopped, capacity is nominated) are applied when the effect is ordered. So the next
decision doesn't order it twice. The real outcome is reported as a fact.
"""

from collections.abc import Callable, Sequence
from time import perf_counter

from structlog import get_logger

from weir.control.fault_isolation import AT_ONCE_MAX, RETRY_AFTER_S, faulty_workload
from weir.control.lifecycle import WorkloadLifecycle
from weir.control.outbox import Observer, Outbox
from weir.control.port import Backend, ReleaseNomination, ReserveNomination, StartPod
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.explanation.pending_refusals import PendingRefusals
from weir.engine.plan import ClassRefusals, Plan
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.events import Nominated, NominationBlocked, NominationReleased, PodAssigned

_LOG = get_logger(__name__)
SENTENCE_MAX = 200
"""Limit of characters of an exception's text in a reason."""
Decide = Callable[[Cluster, Policy, float, EngineCache], Plan]


class Control:
    """A scheduler: a backend, a policy, a clock."""

    def __init__(
        self,
        backend: Backend,
        policy: Policy,
        clock: Callable[[], float],
        *,
        readers: Sequence[Observer] = (),
        decide: Decide = decide,
        must_decide: Callable[[], bool] = lambda: False,
        isolates_faults: bool = False,
        suspension_refusal: Callable[[str], str] = lambda _: "",
    ) -> None:
        """Connect an engine to a backend.

        `must_decide` returns True if a decision is needed although nothing is pending. With `isolates_faults`
        a workload that makes decisions fail is set aside; without it the exception is raised.
        `suspension_refusal` returns why the backend can't suspend a workload, as a clause; empty if it can.
        """
        self._isolates_faults = isolates_faults
        self._must_decide = must_decide
        self.cluster = Cluster()
        self._policy = policy
        self.cache = EngineCache()
        self._backend = backend
        self._clock = clock
        self._decide = decide
        self._out = Outbox(self.cluster, readers)
        self._lives = WorkloadLifecycle(self._out, policy.life, suspension_refusal=suspension_refusal)
        self._plan_wakes_s: float | None = None
        self._refusals: ClassRefusals | None = None  # refusals of the last plan
        self._rules_changed = False

    @property
    def policy(self) -> Policy:
        """The current policy. A new one applies from the next step on, to running work as well."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        self._lives.rules = policy.life
        self._rules_changed = True

    def step(self) -> None:
        """Run one turn: apply facts, decide, and carry the plan out."""
        lives, facts = self._lives, self._backend.events()
        now_s = self._clock()  # read after the facts, so that no fact has a later time
        lives.take_in(facts, now_s)
        if self._rules_changed:
            self._rules_changed = False
            lives.look_at_all()
        lives.due(now_s)
        if self._may_act():
            started = perf_counter()
            plan = self._decided(now_s)
            took_s = perf_counter() - started
            for reader in self._out.readers:
                reader.decided(plan, now_s, took_s)
            self._plan_wakes_s, self._refusals = plan.wake_s, plan.refusals
            if plan.acts:
                self._carry_out(plan, now_s)
                lives.due(now_s)  # a started workload may already exceed its time limit
        else:
            self._plan_wakes_s = None
        effects = self._out.take()
        if effects:
            self._backend.apply(effects)

    def _decided(self, now_s: float) -> Plan:
        """Return the engine's plan; workloads that make the decision fail are set aside.

        Raises:
            Exception: the decision fails without any pending workload, or because of too many of them.
        """
        for _ in range(AT_ONCE_MAX):
            try:
                return self._decide(self.cluster, self._policy, now_s, self.cache)
            except Exception as error:
                if not self._isolates_faults:
                    raise
                self.cache = EngineCache()  # the exception may have left the cache inconsistent
                name = faulty_workload(self.cluster, self._policy, now_s, self._decide)
                if name is None:
                    raise
                _LOG.error("workload_set_aside", workload=name, exc_info=error)
                failure = f"{type(error).__name__}: {error}"[:SENTENCE_MAX]
                why = f"the scheduler failed on this workload ({failure}) and will try it again later"
                self._lives.set_aside(name, why, now_s, now_s + RETRY_AFTER_S)
        return self._decide(self.cluster, self._policy, now_s, self.cache)

    def refusals(self) -> ClassRefusals:
        """Return the refusals of pending workloads: those of the last plan, or of its outcome."""
        if self._refusals is None or not self._refusals.is_current:
            self._refusals = PendingRefusals(self.cluster, self._policy, self._clock(), self.cache)
        return self._refusals

    def forget_results(self) -> None:
        """Forget all cached results of earlier decisions."""
        self.cache, self._refusals = EngineCache(), None

    @property
    def wakes_s(self) -> float | None:
        """Return the time of the next step without an event; None if there is none."""
        timer_s, plan_s = self._lives.timers.next_s(), self._plan_wakes_s
        if timer_s is None or plan_s is None:
            return plan_s if timer_s is None else timer_s
        return min(timer_s, plan_s)

    def _may_act(self) -> bool:
        """Return True if anything is pending, nominated or incomplete: otherwise no plan can act."""
        cluster = self.cluster
        return bool(cluster.waiting or cluster.nominated or cluster.incomplete) or self._must_decide()

    def _carry_out(self, plan: Plan, now_s: float) -> None:
        """Emit a plan's events and enqueue its effects: evictions, then nominations, then starts."""
        out, lives = self._out, self._lives
        for workload in plan.drops:
            out.happen(NominationReleased(workload))
            out.order(ReleaseNomination(workload))
        for workload, since_s in plan.blocked.items():
            out.happen(NominationBlocked(workload, since_s))
        for eviction in plan.evictions:
            lives.stop(eviction.pod, eviction.cause, now_s, eviction.moves, eviction.overrides)
        lives.gave_way(plan.evictions, now_s)
        for nominated in plan.nominations:
            nomination = Nominated(nominated.workload, nominated.places, now_s, nominated.freed_by)
            out.happen(nomination)
            out.order(ReserveNomination(nomination))
        for place in plan.binds:
            out.order(StartPod(place, lives.assigned(PodAssigned(place, now_s))))
