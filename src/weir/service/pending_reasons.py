"""Reasons of pending workloads, as people see them, kept up to date after every step.

The refusals come from the decision. A class of workloads costs a look-up while its refusal stays the same. An
update ends after some time, so that many classes don't delay the next decision. The projects take turns.
Within a project, classes without a reason come first, then those whose last check is the oldest.
"""

from time import perf_counter
from typing import NamedTuple

from structlog import get_logger

from weir.api.answers import Explanation
from weir.control.fair_queue import Turns
from weir.control.loop import Control
from weir.engine.explanation.pending_reasons import PendingReasonFinder
from weir.engine.refusals.refusals import PendingRefusal, RefusalSentences
from weir.model.reasons import Reason
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job

_LOG = get_logger(__name__)
REWORDED_AFTER_S = 60.0
"""Age at which a sentence is written again, since it may state the time that is left."""
UPDATE_S, CLASSES_MIN = 0.05, 32
"""Time of an update, and the number of classes that it checks in any case."""


def explanation(reason: Reason | None) -> Explanation | None:
    """Return a reason as the API shows it; None without a reason."""
    return (
        None
        if reason is None
        else Explanation(why=reason.why.value, sentence=reason.sentence, numbers=dict(reason.numbers))
    )


class _Shown(NamedTuple):
    """Reason of a class as people see it: its refusal, the usage of its project, and when it was written."""

    refusal: PendingRefusal | None
    touched: int
    at_s: float


class PendingReasons:
    """The reasons of all pending workloads. All calls come from the control thread."""

    def __init__(self, reasons: dict[str, Explanation]) -> None:
        self.reasons = reasons
        self._cluster: Cluster | None = None
        self._changes = -1
        self._shown: dict[EquivalenceClass, _Shown] = {}  # the oldest look first
        self._left: dict[EquivalenceClass, None] = {}  # classes to look at
        self._turns = Turns()

    @property
    def is_behind(self) -> bool:
        """Return True if the last update left some classes to the next one."""
        return bool(self._left)

    def update(self, control: Control, now_s: float) -> list[str]:
        """Update the reasons after a change, for some time; return the workloads whose reason changed."""
        cluster = control.cluster
        if cluster is not self._cluster or cluster.changes != self._changes:
            self._begin(cluster)
        elif not self._left:
            return []
        update = _Update(control, now_s)
        changed: list[str] = []
        until = perf_counter() + UPDATE_S
        for count, queued in enumerate(self._turns.take(self._left, _project), start=1):
            del self._left[queued]
            changed += self._look(queued, update, now_s)
            if count >= CLASSES_MIN and perf_counter() >= until:
                break
        for job in (*cluster.nominated.values(), *cluster.stopping.values()):
            if job.waiting is None:
                changed += self._show([job], update.explanation_of(job, None))
        return changed

    def _begin(self, cluster: Cluster) -> None:
        """Record that all classes have to be checked after a change."""
        if cluster is not self._cluster:
            self._cluster = cluster
            self._shown.clear()
        self._changes = cluster.changes
        waiting = dict.fromkeys(cluster.waiting.values())
        self._shown = {queued: shown for queued, shown in self._shown.items() if queued in waiting}
        fresh = (queued for queued in waiting if queued not in self._shown)
        self._left = dict.fromkeys((*fresh, *self._shown))

    def _look(self, queued: EquivalenceClass, update: "_Update", now_s: float) -> list[str]:
        """Check a class; return its members whose reason changed."""
        refusal, touched = update.refusal_of(queued), update.touched(queued)
        shown = self._shown.pop(queued, None)
        changed: list[str] = []
        if (
            shown is None
            or refusal is None
            or shown.refusal is not refusal
            or shown.touched != touched  # the class may have other members
            or now_s - shown.at_s >= REWORDED_AFTER_S
        ):
            members = [job for _, _, job in queued.members]
            changed = self._show(members, update.explanation_of(members[0], refusal))
            shown = _Shown(refusal, touched, now_s)
        self._shown[queued] = shown
        return changed

    def _show(self, members: list[Job], why: Explanation | None) -> list[str]:
        changed = []
        alike: dict[int, bool] = {}  # equivalent workloads share reasons: each is compared once
        first = self.reasons.get(members[0].spec.name)
        if first == why:
            why = first  # shared object of equal members
        for job in members:
            name = job.spec.name
            before = self.reasons.get(name)
            if before is why:
                continue
            same = alike.get(id(before))
            if same is None:
                same = alike[id(before)] = before == why
            if not same:
                changed.append(name)
                if why is None:
                    self.reasons.pop(name, None)
                else:
                    self.reasons[name] = why
        return changed


def _project(queued: EquivalenceClass) -> int:
    return queued.project


class _Update:
    """Refusals of one state, and the explanations that classes share."""

    def __init__(self, control: Control, now_s: float) -> None:
        self._control = control
        self._cluster = control.cluster
        self._now_s = now_s
        self._sentences = RefusalSentences(control.cluster, now_s)
        self._explained: dict[int, tuple[Reason, Explanation | None]] = {}  # by identity of the reason
        self._begin()

    def _begin(self) -> None:
        control = self._control
        self._refusals = control.refusals()
        self._finder = PendingReasonFinder(
            control.cluster, control.policy, self._now_s, control.cache, self._refusals
        )

    def touched(self, queued: EquivalenceClass) -> int:
        """Return the number of changes of the usage of a class's project."""
        return self._cluster.ledger.touched[queued.project]

    def refusal_of(self, queued: EquivalenceClass) -> PendingRefusal | None:
        """Return the refusal of a class; None if its reason is of another kind, or finding it failed."""
        first = queued.first
        if first.name in self._cluster.nominated or not first.is_ready:
            return None
        try:
            return self._refusals.of_class(queued)
        except Exception as error:  # noqa: BLE001 - a reason is only for people: it must not stop the scheduler
            self._failed(first, error)
            return None

    def explanation_of(self, job: Job, refusal: PendingRefusal | None) -> Explanation | None:
        """Return why a workload is pending; None if finding the reason failed."""
        try:
            reason = self._finder.find(job) if refusal is None else self._sentences.reason_of(refusal)
        except Exception as error:  # noqa: BLE001 - see above
            self._failed(job, error)
            return None
        if reason is None:
            return None
        explained = self._explained.get(id(reason))
        if explained is None:
            explained = self._explained[id(reason)] = reason, explanation(reason)
        return explained[1]

    def _failed(self, job: Job, error: Exception) -> None:
        self._control.forget_results()  # the exception may have left caches inconsistent
        self._begin()
        _LOG.error("reason_not_found", workload=job.name, exc_info=error)
