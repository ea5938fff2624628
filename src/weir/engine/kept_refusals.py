"""Refusals kept from one cycle to the next, each with what it depends on."""

from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.refusals import NoClaim, OlderClaims, QuotaRefusal, Refusal, Shortage
from weir.model.policy import AffinityPolicy
from weir.model.reasons import Reason
from weir.state.jobs import EquivalenceClass, Wants

_CLASSES_KEPT = 64
Groups = tuple[tuple[str, int], ...]
"""Groups that lack pods, with their number."""
SituationKey = tuple[Wants, tuple[AffinityPolicy, ...], Groups, bool, bool, EquivalenceClass | None]


class Situation:
    """Classes with equal requests and equal quota checks, in the last state in which one was asked.

    Attributes:
        groups: the groups that lack pods, with their number.
        in_quota: whether quotas cover the request.
        any_model_shut: whether the limit of a GPU model may exclude nodes.
        state: version of the cluster, and time.
        shortage: the capacity that they lack.
        is_short: whether fewer pods of any group fit than are lacking.
        headroom: the headroom that alone refuses all of them, if it does.
    """

    __slots__ = ("any_model_shut", "groups", "headroom", "in_quota", "is_short", "shortage", "state")

    def __init__(self, groups: Groups, in_quota: bool, any_model_shut: bool) -> None:
        self.groups = groups
        self.in_quota = in_quota
        self.any_model_shut = any_model_shut
        self.state = (-1, -INFINITE)
        self.shortage: Shortage | None = None
        self.is_short = False
        self.headroom: QuotaRefusal | None = None


class KeptRefusal:
    """Refusal of one class of pending workloads.

    Attributes:
        candidate: the workload that was asked for.
        nodes: why nodes could never take it, however idle; None if they may.
        groups: the groups that lack pods, with their number.
        touched: version of the usage that its checks read: of its project and of each bounded queue above.
        until_s: time at which its checks have to be asked again.
        final: a refusal that free capacity doesn't change.
        situation: what it shares with other classes; set unless its refusal is final.
        share: the fair share of its project, if its claim depends on that; else None.
        claim_until_s: time at which its claim may change by waiting; in the past while it isn't known.
        claimless: why it has no claim on what others hold; None if victims have to be looked at.
        refusal: what refuses it, with the free capacity of the last state it was asked in.
        basis: the shortage that `refusal` was made of.
        changes: version of the cluster in that state.
        refusal_until_s: time at which `refusal` may change although the cluster doesn't.
    """

    __slots__ = (
        *("basis", "candidate", "changes", "claim_until_s", "claimless", "final", "groups", "nodes"),
        *("refusal", "refusal_until_s", "share", "situation", "touched", "until_s"),
    )

    def __init__(self, candidate: Candidate, nodes: Reason | None, groups: Groups, touched: int) -> None:
        self.candidate = candidate
        self.nodes = nodes
        self.groups = groups
        self.touched = touched
        self.until_s = INFINITE
        self.final: Refusal | None = None
        self.situation: Situation | None = None
        self.share: list[float] | None = None
        self.claim_until_s = -INFINITE
        self.claimless: NoClaim | OlderClaims | None = None
        self.refusal: Refusal | None = None
        self.basis: Shortage | None = None
        self.changes = -1
        self.refusal_until_s = INFINITE


class KeptRefusals:
    """Kept refusals by class, and what several share. New nodes, queues or policies need a new table."""

    def __init__(self) -> None:
        self.of: dict[EquivalenceClass, KeptRefusal] = {}
        self.situations: dict[SituationKey, Situation] = {}
        self.shortages: dict[tuple[Wants, tuple[AffinityPolicy, ...]], Shortage] = {}
        self.headrooms: dict[int, QuotaRefusal] = {}  # the last one for each requested amount

    def prune(self, waiting: int) -> None:
        """Forget classes that no longer wait."""
        for table in (self.of, self.situations, self.shortages):
            if len(table) > 2 * waiting + _CLASSES_KEPT:
                table.clear()

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
