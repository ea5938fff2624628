"""Parts of refusals kept from one state to the next, each with the values that it depends on."""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from weir.engine.order.queue_order import Candidate
from weir.engine.refusals.refusals import PendingRefusal, QuotaRefusal
from weir.engine.refusals.shortage_refusals import NoClaim, OlderClaims, Shortage
from weir.model.policy import AffinityRules
from weir.state.jobs import EquivalenceClass, Wants

_CLASSES_KEPT = 64
Key = TypeVar("Key")
Found = TypeVar("Found")


class KeptClaim(NamedTuple):
    """Claim of a class on others' capacity, valid for the same usage and versions, until a time.

    `denied` is None if there is a claim; then victims have to be searched.
    """

    denied: NoClaim | OlderClaims | None
    versions: tuple[int, bool]  # version of the project's fair share; True if unprotected idle work exists
    until_s: float


@dataclass(slots=True, eq=False)
class KeptRefusal:
    """Refusal of a class of pending workloads, kept for the next state.

    An equal refusal of a later state is the same object. Quota checks stay valid until `usage` changes; the
    checks of free capacity run again in each state.
    """

    candidate: Candidate  # the workload that the refusal was computed for
    usage: int  # version of the usage of the project and the bounded queues above
    final: PendingRefusal | None  # a refusal that free capacity can't change
    in_quota: bool  # quotas cover the request
    claim: KeptClaim | None = None  # None until capacity is short
    refusal: PendingRefusal | None = None  # None until the first check


class KeptRefusals:
    """Cached refusals by class, and values that several share; new nodes, queues or policies empty it."""

    def __init__(self) -> None:
        self.by_class: dict[EquivalenceClass, KeptRefusal] = {}
        self.shortages: dict[tuple[Wants, AffinityRules], Shortage] = {}
        self.headrooms: dict[int, QuotaRefusal] = {}  # by requested amount

    def prune(self, waiting: int) -> None:
        """Forget classes that no longer wait."""
        for table in (self.by_class, self.shortages):
            if len(table) > 2 * waiting + _CLASSES_KEPT:
                table.clear()


def shared(table: dict[Key, Found], key: Key, result: Found) -> Found:
    """Return the earlier of two equal results, so that refusals made of them are identical objects."""
    before = table.get(key)
    if before is None or before != result:
        before = table[key] = result
    return before
