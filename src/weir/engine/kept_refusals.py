"""Refusals kept from one cycle to the next, each with the values that it depends on."""

from dataclasses import dataclass
from typing import TypeVar

from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.refusals import NoClaim, OlderClaims, QuotaRefusal, Refusal, Shortage
from weir.model.policy import AffinityRules
from weir.model.reasons import Reason
from weir.state.jobs import EquivalenceClass, Wants

_CLASSES_KEPT = 64
Groups = tuple[tuple[str, int], ...]
"""Groups that lack pods, with their number."""
SituationKey = tuple[Wants, AffinityRules, Groups, bool, bool, EquivalenceClass | None]
Key = TypeVar("Key")
Found = TypeVar("Found")


@dataclass(slots=True, eq=False)
class Situation:
    """Classes with equal requests and equal quota checks, in the last state in which one was asked."""

    groups: Groups
    in_quota: bool  # quotas cover the request
    any_model_shut: bool  # the limit of a GPU model may exclude nodes
    state: tuple[int, float] = (-1, -INFINITE)  # version of the cluster, and time
    shortage: Shortage | None = None
    is_short: bool = False  # fewer pods of a group fit than are lacking
    headroom: QuotaRefusal | None = None  # if that alone refuses all of them


@dataclass(slots=True, eq=False)
class KeptRefusal:
    """Refusal of one class of pending workloads."""

    candidate: Candidate  # the workload that was asked for
    nodes: Reason | None  # why nodes could never take it, however idle; None if they may
    groups: Groups
    touched: int  # version of the usage that its checks read: of its project and the bounded queues above
    until_s: float = INFINITE  # time at which its checks have to be asked again
    final: Refusal | None = None  # a refusal that free capacity doesn't change
    situation: Situation | None = None  # unless its refusal is final
    share: list[float] | None = None  # fair share of its project, if its claim depends on that
    claim_until_s: float = -INFINITE  # time at which its claim may change by waiting
    claimless: NoClaim | OlderClaims | None = None  # None if victims have to be looked at
    refusal: Refusal | None = None  # with the free capacity of the last state it was asked in
    basis: Shortage | None = None  # that `refusal` was made of
    changes: int = -1  # version of the cluster in that state
    refusal_until_s: float = INFINITE  # time at which `refusal` may change although the cluster doesn't


class KeptRefusals:
    """Kept refusals by class, and values that several share. New nodes, queues or policies need a new one."""

    def __init__(self) -> None:
        self.of: dict[EquivalenceClass, KeptRefusal] = {}
        self.situations: dict[SituationKey, Situation] = {}
        self.shortages: dict[tuple[Wants, AffinityRules], Shortage] = {}
        self.headrooms: dict[int, QuotaRefusal] = {}  # by requested amount

    def prune(self, waiting: int) -> None:
        """Forget classes that no longer wait."""
        for table in (self.of, self.situations, self.shortages):
            if len(table) > 2 * waiting + _CLASSES_KEPT:
                table.clear()


def shared(table: dict[Key, Found], key: Key, found: Found) -> Found:
    """Return an equal result of before, so that refusals made of it stay as they are."""
    before = table.get(key)
    if before is None or before != found:
        before = table[key] = found
    return before
