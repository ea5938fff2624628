"""Pending reasons, as data and as one sentence: of refusals, and of work not ready or nominated."""

from weir.engine.cache import EngineCache
from weir.engine.explanation.infeasible_workloads import group_phrase
from weir.engine.explanation.pending_refusals import PendingRefusals
from weir.engine.plan import ClassRefusals
from weir.engine.refusals.holder_phrases import names_phrase
from weir.engine.refusals.refusals import RefusalSentences
from weir.model.policy import Policy
from weir.model.reasons import Reason, ReasonCode, suspension_reason
from weir.model.resources import written
from weir.model.workloads import WorkloadType
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase
from weir.state.person_admission import GPUS, RUNNING, SESSIONS, PersonUsage, whole_milli


def pending_reason(
    cluster: Cluster, policy: Policy, job: Job, now_s: float, cache: EngineCache | None = None
) -> Reason | None:
    """Return the reason why some pods of a workload don't run; None if all run."""
    return PendingReasonFinder(cluster, policy, now_s, cache or EngineCache()).find(job)


class PendingReasonFinder:
    """Finds the reasons of the workloads of one state."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        now_s: float,
        cache: EngineCache,
        refusals: ClassRefusals | None = None,
    ) -> None:
        """Find reasons by the refusals of this state, if there are any yet."""
        self._cluster = cluster
        self._refusals = refusals or PendingRefusals(cluster, policy, now_s, cache)
        self._sentences = RefusalSentences(cluster, now_s)

    def find(self, job: Job) -> Reason | None:
        """Return the reason why some pods of a workload don't run; None if all run."""
        if job.is_ready and all(
            pod.phase is Phase.RUNNING or (pod.phase is Phase.ABSENT and pod.nomination is None)
            for group in job.pods
            for pod in group
        ):
            return None
        reason = self._of_work_not_ready(job)
        if reason is not None:
            return reason
        queued = job.waiting
        assert queued is not None
        return self._sentences.reason_of(self._refusals.of_member(queued, queued.position_of(job)))

    # Workloads that aren't ready, or whose capacity isn't free yet

    def _of_work_not_ready(self, job: Job) -> Reason | None:
        if job.held:
            return suspension_reason(job.held_code, job.held_why, job.held_until_s)
        usage = self._cluster.admission.usage_of(job) if job.withheld else None
        if usage is not None:
            return person_limit_reason(job, usage)
        if job.name in self._cluster.nominated:
            return self._nominated(job)
        if not job.is_ready:
            return _not_ready(job)
        if job.waiting is None:
            verb = "is" if job.stopping == 1 else "are"
            sentence = f"{job.stopping} of its own pods {verb} still being stopped"
            return Reason(ReasonCode.WAITING_FOR_EVICTION, sentence, {"stopping": job.stopping})
        return None

    def _nominated(self, job: Job) -> Reason:
        nominated = [pod for group in job.pods for pod in group if pod.nomination is not None]
        nodes = sorted({pod.nomination[0] for pod in nominated if pod.nomination is not None})
        if job.blocked_since_s is not None:
            names = names_phrase([self._cluster.node_names[node] for node in nodes])
            sentence = f"the capacity freed for it on {names} isn't available: it gets another place soon"
            return Reason(ReasonCode.WAITING_FOR_EVICTION, sentence, {"blocked_since_s": job.blocked_since_s})
        pods = (pod for node in nodes for pod in self._cluster.pods_on[node])
        waiting_for = sorted({pod.job.name for pod in pods if pod.phase is Phase.STOPPING})
        absent = sum(pod.phase is Phase.ABSENT for pod in nominated)
        if absent and not waiting_for:
            those = "a pod of it, which doesn't" if absent == 1 else f"{absent} pods of it, which don't"
            sentence = f"capacity is kept for {those} exist yet"
            return Reason(ReasonCode.NOT_READY, sentence, {"absent": absent})
        named = names_phrase(waiting_for or list(job.nomination_freed_by))
        sentence = (
            f"capacity is being freed for it by {named}"
            if named
            else "its capacity is free and it is about to start"
        )
        return Reason(ReasonCode.WAITING_FOR_EVICTION, sentence, {"freed_by": tuple(waiting_for)})


def _not_ready(job: Job) -> Reason:
    """Return the reason of a gang with too few pods, with the group if one is short."""
    named = ""
    existing = [group.count - absent for group, absent in zip(job.spec.groups, job.absent, strict=True)]
    have, need = sum(existing), sum(job.needed)
    if have >= need:
        index = next(index for index, exist in enumerate(existing) if exist < job.needed[index])
        have, need, named = existing[index], job.needed[index], group_phrase(job, job.spec.groups[index].name)
    return Reason(
        ReasonCode.NOT_READY, f"{have} of {need} pods{named} exist", {"exist": have, "needed": need}
    )


def person_limit_reason(job: Job, usage: PersonUsage) -> Reason:
    """Return the limit that withholds a workload, its numbers, and the workloads that have to end first."""
    limits, spec = usage.limits, job.spec
    want = whole_milli(job)
    whose = f"{spec.user} may use {{}} at once in project {spec.project}"
    if limits.gpus_milli and want > limits.gpus_milli:
        most = written("gpu", limits.gpus_milli)
        return Reason(
            ReasonCode.PERSON_LIMIT,
            f"all its pods ask for {written('gpu', want)} GPUs, and {whose.format(most)}: ask for less",
            _numbers(job, GPUS, want, usage.milli, limits.gpus_milli),
        )
    ahead = list(usage.admitted.values())
    milli = usage.milli + sum([whole_milli(other) for other in ahead])
    sessions = usage.sessions + sum([other.type is WorkloadType.BUILD for other in ahead])
    if limits.running and usage.running + len(ahead) >= limits.running:
        most = f"{limits.running} workload" + ("" if limits.running == 1 else "s")
        numbers = _numbers(job, RUNNING, 1, usage.running, limits.running)
        sentence = f"{spec.user} may have {most} running at once in project {spec.project}"
    elif limits.sessions and job.type is WorkloadType.BUILD and sessions >= limits.sessions:
        most = f"{limits.sessions} build session" + ("" if limits.sessions == 1 else "s")
        numbers = _numbers(job, SESSIONS, 1, usage.sessions, limits.sessions)
        sentence = f"{spec.user} may have {most} running at once in project {spec.project}"
    else:
        most_milli = limits.gpus_milli or 0
        numbers = _numbers(job, GPUS, want, usage.milli, most_milli)
        first = usage.first_beyond_gpus()
        if milli + want <= most_milli and first not in (None, job.name):
            rest = f"and the rest is kept for {first}, which comes first"
        else:
            rest = f"{written('gpu', milli)} are in use, and this requests {written('gpu', want)}"
        sentence = f"{whose.format(written('gpu', most_milli) + ' GPUs')}, {rest}"
    running = usage.in_use(str(numbers["limit"]))
    ahead_names = sorted(other.name for other in ahead)
    numbers |= {"in_use": tuple(running), "ahead": tuple(ahead_names)}
    if running:
        end = "the end of" if len(running) == 1 else "an end among"
        clause = f"it waits for {end} {names_phrase(running)}"
    elif ahead_names:
        clause = f"older work of the same person goes first: {names_phrase(ahead_names)}"
    else:
        clause = "older work of the same person goes first"
    return Reason(ReasonCode.PERSON_LIMIT, f"{sentence}; {clause}", numbers)


def _numbers(job: Job, limit: str, want: int, have: int, most: int) -> dict[str, object]:
    return {
        "limit": limit,
        "user": job.spec.user,
        "project": job.spec.project,
        "want": want,
        "have": have,
        "most": most,
    }
