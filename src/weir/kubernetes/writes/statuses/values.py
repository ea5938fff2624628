"""Values of workloads in their objects: the words of a status, and differences between two of them."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from weir.api.answers import Explanation
from weir.control.port import NOT_IDLE, IdleProgress, WorkloadProgress
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.gangs.idle_state import IdleState
from weir.kubernetes.writes.shown_text import shown
from weir.state.events import Nominated

Words = dict[str, Any]
SENTENCE_MAX = 2000
NAMED_MAX = 16
"""Limit of workloads and nodes in a list of an object: a reclaim may stop thousands."""
TROUBLES_NAMED_MAX = 4


class Trouble(Protocol):
    """A problem of a workload, with its beginning."""

    @property
    def sentence(self) -> str:
        """Return the problem for people, without a full stop."""
        ...

    @property
    def since_s(self) -> float:
        """Return when it began."""
        ...


def trouble_conditions(kind: str, reason: str, troubles: Sequence[Trouble], noun: str) -> list[Words]:
    """Return the condition that names the first troubles and counts the rest; `noun` is plural."""
    if not troubles:
        return []
    sentences = [trouble.sentence for trouble in troubles[:TROUBLES_NAMED_MAX]]
    unnamed = len(troubles) - len(sentences)
    message = "; ".join(sentences) + (f"; and {unnamed} more {noun}" if unnamed else "")
    return [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": f"{message}.",
            "lastTransitionTime": moment(min(trouble.since_s for trouble in troubles)),
        }
    ]


def life_of(status: WorkloadProgress, idle: IdleState) -> Words:
    """Return the lifecycle of a workload as its status records it."""
    return {
        "starts": status.starts,
        "settled": status.settled,
        "failures": status.failures,
        "ranSeconds": status.ran_s,
        "retryAtSeconds": status.retry_at_s,
        "restarts": status.restarts,
        "idle": None if status.idle == NOT_IDLE else _idle_of(status.idle, idle),
    }


def _idle_of(progress: IdleProgress, idle: IdleState) -> Words:
    return {
        "idleSeconds": progress.idle_s,
        "notices": progress.notices,
        "noticedSeconds": progress.noticed_s,
        "unprotected": progress.unprotected,
        "isIdle": progress.is_idle,
        "excusedUntilSeconds": progress.excused_until_s,
        "extendedUntilSeconds": idle.extended_until_s,
        "run": progress.run,
    }


def nomination_status(gang: Gang, nomination: Nominated) -> Words:
    """Return a nomination by the names of pods, which stay valid when slots change."""
    places = []
    for place in nomination.places:
        tracked = gang.pod_at(place.pod)
        if tracked is not None:
            places.append({"pod": tracked.name, "node": place.node, "devices": list(place.devices)})
    return {
        "at": moment(nomination.at_s),
        "places": places,
        "freedBy": list(nomination.freed_by[:NAMED_MAX]),
    }


def digest(words: Words) -> str:
    """Return a digest by which equal specs or statuses are recognised."""
    return hashlib.blake2b(msgspec.json.encode(words), digest_size=8).hexdigest()


def over(status: Words, before: Words) -> Words:
    """Return a merge patch that replaces former numbers; the plain numbers if none were written before."""
    if not before:
        return status
    patch = {key: value for key, value in status.items() if before.get(key) != value}
    reason, last = patch.get("reason"), before.get("reason")
    if reason and last:
        gone = dict.fromkeys(set(last["numbers"]) - set(reason["numbers"]))
        patch["reason"] = {**reason, "numbers": {**reason["numbers"], **gone}}
    return patch


def is_reworded(patch: Words, before: Words) -> bool:
    """Return True if a patch changes only the words and numbers of the reason."""
    if set(patch) != {"reason"}:
        return False
    reason, last = patch["reason"], before.get("reason")
    return reason is not None and last is not None and bool(reason["why"] == last["why"])


def cut(sentence: str) -> str:
    """Return the beginning of a sentence, as much as an object holds and a person reads."""
    sentence = shown(sentence[: SENTENCE_MAX + 1])
    return sentence if len(sentence) <= SENTENCE_MAX else f"{sentence[: SENTENCE_MAX - 1]}…"


def expected(why: Explanation | None) -> str | None:
    """Return when the workload may start, if that is only a matter of time; else None."""
    until_s = None if why is None else why.numbers.get("until_s")
    return moment(until_s) if isinstance(until_s, int | float) else None


def plain(numbers: Mapping[str, object]) -> Words:
    """Return the numbers of a reason in a form that an object holds; of a list the first NAMED_MAX."""
    return {
        key: list(value)[:NAMED_MAX] if isinstance(value, list | tuple | set | frozenset) else value
        for key, value in numbers.items()
    }
