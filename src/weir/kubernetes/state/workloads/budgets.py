"""PodDisruptionBudgets: the protected pods of Weir, and the number of allowed evictions.

The status of a budget lags behind the evictions that Weir has ordered. So an ordered eviction counts against
its budget until the status names the pod, or is newer than the answer to the eviction.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from weir.control.port import Fact
from weir.kubernetes.api.budget_objects import PodDisruptionBudget
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.translate.disruption_budgets import BudgetCoverage, allowed_at_best, is_free
from weir.model.budgets import DisruptionBudget
from weir.model.policy import BudgetPolicy
from weir.model.workloads import Workload
from weir.state.events import BudgetRemoved, BudgetSet, PodKey, PodProtected

Labels = Callable[[str], Mapping[str, str]]
_NAMED_MAX = 3


class Budgets:
    """Budgets at the API server, and their last state in control."""

    def __init__(self, labels: Labels) -> None:
        """Create it without budgets. `labels` returns the labels of a pod by its key."""
        self._rules = BudgetPolicy()
        self._labels = labels
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._coverage: dict[str, BudgetCoverage] = {}  # by namespace
        self._stale: set[str] = set()  # namespaces in which the budgets of pods may have changed
        self._ordered: dict[str, dict[str, bool]] = {}  # ordered evictions by budget and pod; True: accepted
        self._ordered_for: dict[str, set[str]] = {}  # budgets that the eviction of a pod counts against
        self._shut: dict[str, float] = {}  # end of the retry pause, by budget that refused despite its status
        # Running workloads with the time from which they count as non-preemptible
        self._waits: dict[Gang, float] = {}
        self._reported: dict[str, int] = {}
        self._changed: set[str] = set()  # names of budgets whose allowance may have changed
        self._pods_reported: dict[Gang, tuple[Workload, dict[PodKey, tuple[str, ...]]]] = {}
        self._uses: Counter[str] = Counter()

    def set_rules(self, rules: BudgetPolicy) -> None:
        """Apply these settings from now on."""
        self._rules = rules
        self._stale.update(self._coverage)

    @property
    def protection_lapses(self) -> bool:
        """Return True if budgets protect usage over quota only for the grace period."""
        return self._rules.borrowed == "grace_period"

    # Observations

    def see(self, key: str, budget: PodDisruptionBudget | None) -> None:
        """Process a new or changed budget; None: it was deleted."""
        namespace = _namespace(key)
        before = self._budgets.pop(key, None)
        coverage = self._coverage.setdefault(namespace, BudgetCoverage())
        if budget is None:
            coverage.drop(key)
            self._ordered.pop(key, None)
        else:
            if before is None or before.spec != budget.spec:
                coverage.add(key, budget.spec.selector)
            self._budgets[key] = budget
            self._reflect(key, budget)
        self._shut.pop(key, None)
        self._changed.add(key)
        if before is None or budget is None or _differs(before, budget):
            self._stale.add(namespace)
        if not coverage:
            del self._coverage[namespace]

    def _reflect(self, key: str, budget: PodDisruptionBudget) -> None:
        """Forget the evictions that the status of a budget has counted."""
        ordered = self._ordered.get(key)
        if ordered:
            counted = budget.status.disrupted_pods
            left: dict[str, bool] = {}
            left.update((pod, done) for pod, done in ordered.items() if not done and pod not in counted)
            self._set_ordered(key, left)

    def _set_ordered(self, key: str, pods: dict[str, bool]) -> None:
        if pods:
            self._ordered[key] = pods
        else:
            self._ordered.pop(key, None)

    def stale(self, gangs: Iterable[Gang], now_s: float) -> list[Gang]:
        """Return workloads that need a new decision because of their budgets."""
        for key in [key for key, until_s in self._shut.items() if until_s <= now_s]:
            del self._shut[key]
            self._changed.add(key)
        stale = [gang for gang, at_s in self._waits.items() if at_s <= now_s]
        if self._stale:
            stale += [gang for gang in gangs if gang.key.namespace in self._stale]
            self._stale.clear()
        return stale

    # Evictions by Weir

    def ordered(self, tracked: TrackedPod, *, by_plan: bool) -> None:
        """Count an ordered eviction. If a plan of the engine ordered it, control has counted it already."""
        for key in self._charged(tracked):
            self._ordered.setdefault(key, {})[tracked.name] = False
            self._ordered_for.setdefault(tracked.key, set()).add(key)
            self._changed.add(key)
        for name in self._names_told(tracked) if by_plan else ():
            self._reported[name] -= 1

    def accepted(self, tracked: TrackedPod) -> None:
        """Record that the API server accepted an eviction."""
        for key in self._ordered_for.get(tracked.key, ()):
            pods = self._ordered.get(key, {})
            if tracked.name in pods:
                pods[tracked.name] = True

    def refused(self, tracked: TrackedPod, now_s: float) -> float:
        """Process a refused eviction: control counts the pod's budgets as used up. Return until when."""
        until_s = now_s + self._rules.retry
        self.withdrawn(tracked)
        for key in self._charged(tracked):
            self._shut[key] = until_s
            self._changed.add(key)
        for name in self._names_told(tracked):
            self._reported[name] = min(self._reported[name], 0)
            self._changed.add(name)
        return until_s

    def withdrawn(self, tracked: TrackedPod) -> None:
        """Forget an eviction, or a pod that is gone.

        An accepted eviction counts until the status shows it.
        """
        for key in sorted(self._ordered_for.pop(tracked.key, ())):
            pods = self._ordered.get(key, {})
            if pods.get(tracked.name) is False:
                del pods[tracked.name]
                self._changed.add(key)
                self._set_ordered(key, pods)

    def _names_told(self, tracked: TrackedPod) -> tuple[str, ...]:
        """Return the names of the budgets against which control counts a stop of a pod."""
        if tracked.gang is None or tracked.gang not in self._pods_reported:
            return ()
        names = self._pods_reported[tracked.gang][1].get(
            PodKey(tracked.gang.name, tracked.group, tracked.index), ()
        )
        return tuple(name for name in names if name in self._reported)

    # Results

    def matched(self, tracked: TrackedPod) -> tuple[str, ...]:
        """Return the keys of all budgets that select a pod."""
        if tracked.info is None:
            return ()
        coverage = self._coverage.get(tracked.info.gang.namespace)
        return () if coverage is None else coverage.budgets_for(self._labels(tracked.key))

    def _charged(self, tracked: TrackedPod) -> tuple[str, ...]:
        """Return the budget that an eviction of a pod counts against now."""
        matched = self.matched(tracked)
        if len(matched) != 1 or (
            tracked.holds and is_free(self._budgets[matched[0]], tracked.phase, ready=tracked.ready)
        ):
            return ()
        return matched

    def _protecting(self, tracked: TrackedPod) -> tuple[str, ...]:
        """Return the budgets that protect a pod: the API evicts none that several budgets select."""
        matched = self.matched(tracked)
        if len(matched) < 2:
            return self._charged(tracked)
        if tracked.holds and tracked.phase == "Pending":
            return ()
        return (_joined(matched),)

    def judge(self, gang: Gang, now_s: float) -> float | None:
        """Decide if a workload is non-preemptible because its budgets can't allow its eviction.

        A workload without allocations becomes so at once. A running one becomes so after the grace period:
        then the end of that period is returned.
        """
        self._waits.pop(gang, None)
        if not self._coverage or self._rules.borrowed == "override" or not self._is_protected(gang):
            gang.protected = False
            return None
        if gang.protected or not any(tracked.holds for tracked in gang.pods()):
            gang.protected = True
            return None
        since_s = gang.protected_since_s = min(gang.protected_since_s or now_s, now_s)
        gang.protected = now_s >= since_s + self._rules.grace
        if gang.protected:
            return None
        self._waits[gang] = since_s + self._rules.grace
        return self._waits[gang]

    def _is_protected(self, gang: Gang) -> bool:
        """Return True if the pods that a workload needs could never be evicted at once."""
        if gang.key.namespace not in self._coverage:
            gang.protected_since_s = 0.0
            return False
        matched: Counter[str] = Counter()
        several, needed = False, _needed(gang)
        for tracked in gang.pods():
            keys = self.matched(tracked)
            several = several or len(keys) > 1
            matched.update(keys)
        is_protected = several or any(
            min(pods, needed) > allowed_at_best(self._budgets[key], pods) for key, pods in matched.items()
        )
        if not is_protected:
            gang.protected_since_s = 0.0
        return is_protected

    def facts(self, gangs: Iterable[Gang]) -> list[Fact]:
        """Return the facts that control lacks about the budgets and the pods of these workloads."""
        if not self._coverage and not self._pods_reported:
            self._changed.clear()
            return []
        pods = [fact for gang in gangs for fact in self._of_pods(gang)]
        return [*self._of_budgets(), *pods, *self._of_unused()]

    def _of_pods(self, gang: Gang) -> Iterator[Fact]:
        workload, reported = self._pods_reported.pop(gang, (None, {}))
        now: dict[PodKey, tuple[str, ...]] = {}
        for tracked in gang.pods() if gang.reported is not None and self._coverage else ():
            names = self._protecting(tracked)
            if names:
                now[PodKey(gang.name, tracked.group, tracked.index)] = names
        self._uses.subtract(name for names in reported.values() for name in names)
        self._uses.update(name for names in now.values() for name in names)
        if gang.reported is None:
            return
        if now:
            self._pods_reported[gang] = gang.reported, now
        self._changed.update(name for names in now.values() for name in names if name not in self._reported)
        for key in reported.keys() - now.keys():
            yield PodProtected(key, ())
        for key, names in now.items():
            if workload is not gang.reported or reported.get(key) != names:
                yield PodProtected(key, names)

    def _of_budgets(self) -> Iterator[Fact]:
        for name in sorted(self._changed):
            if self._uses[name] > 0:
                allowed = self.allowed(name)
                if self._reported.get(name) != allowed:
                    self._reported[name] = allowed
                    yield BudgetSet(DisruptionBudget(name, allowed))
        self._changed.clear()

    def _of_unused(self) -> Iterator[Fact]:
        for name in [name for name, pods in self._uses.items() if pods <= 0]:
            del self._uses[name]
            if self._reported.pop(name, None) is not None:
                yield BudgetRemoved(name)

    def allowed(self, name: str) -> int:
        """Return how many more evictions a budget allows, without those already ordered."""
        budget = self._budgets.get(name)
        if (
            budget is None
            or name in self._shut
            or budget.status.observed_generation < budget.metadata.generation
        ):
            return 0
        return max(0, budget.status.disruptions_allowed) - len(self._ordered.get(name, ()))

    def retell(self) -> None:
        """Forget which facts control knows, since control starts again."""
        self._pods_reported.clear()
        self._uses.clear()
        self._reported.clear()
        self._shut.clear()

    def forget(self, gang: Gang) -> None:
        """Forget a workload."""
        self._waits.pop(gang, None)
        _, reported = self._pods_reported.pop(gang, (None, {}))
        self._uses.subtract(name for names in reported.values() for name in names)


def _namespace(key: str) -> str:
    return key.partition("/")[0]


def _joined(keys: tuple[str, ...]) -> str:
    """Return one name for several budgets of one namespace."""
    namespace = _namespace(keys[0])
    names = [key.partition("/")[2] for key in keys]
    ellipsis = "+..." if len(names) > _NAMED_MAX else ""
    return f"{namespace}/{'+'.join(names[:_NAMED_MAX])}{ellipsis}"


def _needed(gang: Gang) -> int:
    """Return the number of pods a workload needs, and of those it loses at once."""
    if gang.head is None:
        return 1
    succeeded = Counter(gang.succeeded.values())
    return max(1, gang.head.derived.needed(gang.head.annotations.min_pods, succeeded).min_pods)


def _differs(before: PodDisruptionBudget, now: PodDisruptionBudget) -> bool:
    """Return True if a budget may protect other pods now, or never allow an eviction that it could allow."""
    was, status = before.status, now.status
    return (
        before.spec != now.spec
        or was.expected_pods != status.expected_pods
        or (was.current_healthy >= was.desired_healthy) != (status.current_healthy >= status.desired_healthy)
        or (was.desired_healthy > 0) != (status.desired_healthy > 0)
    )
