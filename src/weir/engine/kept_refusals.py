"""Refusals kept from one cycle to the next, each with what it depends on."""

from weir.engine.quota_overlay import INFINITE
from weir.engine.refusals import NoClaim, OlderClaims, QuotaRefusal, Refusal, Shortage
from weir.model.policy import AffinityPolicy
from weir.state.jobs import EquivalenceClass, Wants

_CLASSES_KEPT = 64


class KeptRefusal:
    """Refusal of one class of pending workloads.

    Attributes:
        touched: version of the usage that its checks read: of its project and of each bounded queue above.
        until_s: time at which its checks have to be asked again.
        share: the fair share of its project, if its claim depends on that; else None.
        claim_until_s: time at which its claim may change by waiting; in the past while it isn't known.
        final: a refusal that free capacity doesn't change.
        claimless: why it has no claim on what others hold; None if victims have to be looked at.
        in_quota: whether quotas cover it.
        any_model_shut: whether the limit of a GPU model may exclude nodes.
        groups: the groups that lack pods, with their number.
        refusal: what refuses it, with the free capacity of the last state it was asked in.
        basis: the shortage that `refusal` was made of.
        changes: version of the cluster in that state.
        refusal_until_s: time at which `refusal` may change although the cluster doesn't.
    """

    __slots__ = (
        *("any_model_shut", "basis", "changes", "claim_until_s", "claimless", "final", "groups"),
        *("in_quota", "share", "refusal", "refusal_until_s", "touched", "until_s"),
    )

    def __init__(self, touched: int) -> None:
        self.touched = touched
        self.share: list[float] | None = None
        self.until_s = INFINITE
        self.final: Refusal | None = None
        self.claim_until_s = -INFINITE
        self.claimless: NoClaim | OlderClaims | None = None
        self.in_quota = False
        self.any_model_shut = False
        self.groups: tuple[tuple[str, int], ...] = ()
        self.basis: Shortage | None = None
        self.changes = -1
        self.refusal: Refusal | None = None
        self.refusal_until_s = INFINITE


class KeptRefusals:
    """Kept refusals by class, and what several share. New nodes, queues or policies need a new table."""

    def __init__(self) -> None:
        self.of: dict[EquivalenceClass, KeptRefusal] = {}
        self.shortages: dict[tuple[Wants, tuple[AffinityPolicy, ...]], Shortage] = {}
        self.headrooms: dict[int, QuotaRefusal] = {}  # the last one for each requested amount

    def prune(self, waiting: int) -> None:
        """Forget classes that no longer wait."""
        if len(self.of) > 2 * waiting + _CLASSES_KEPT:
            self.of.clear()
        if len(self.shortages) > 2 * waiting + _CLASSES_KEPT:
            self.shortages.clear()

    def shared_shortage(self, key: tuple[Wants, tuple[AffinityPolicy, ...]], found: Shortage) -> Shortage:
        """Return an equal shortage of before, so that refusals made of it stay as they are."""
        before = self.shortages.get(key)
        if before is not None and before == found:
            return before
        self.shortages[key] = found
        return found

    def shared_headroom(self, found: QuotaRefusal) -> QuotaRefusal:
        """Return an equal refusal of before."""
        before = self.headrooms.get(found.want)
        if before is not None and before == found:
            return before
        self.headrooms[found.want] = found
        return found
