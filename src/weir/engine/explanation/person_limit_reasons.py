"""Reasons of work that the limits of its person withhold, with the remedy."""

from weir.engine.refusals.holder_phrases import names_phrase
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import written
from weir.model.workloads import WorkloadType
from weir.state.jobs import Job
from weir.state.person_admission import GPUS, RUNNING, SESSIONS, PersonUsage, whole_milli


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
    milli = usage.milli + sum([whole_milli(each) for each in ahead])
    sessions = usage.sessions + sum([each.type is WorkloadType.BUILD for each in ahead])
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
            rest = f"{written('gpu', milli)} are taken, and this asks for {written('gpu', want)}"
        sentence = f"{whose.format(written('gpu', most_milli) + ' GPUs')}, {rest}"
    running = usage.in_use(str(numbers["limit"]))
    ahead_names = sorted(each.name for each in ahead)
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
