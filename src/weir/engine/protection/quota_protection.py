"""Protection by quotas: the degree to which quotas protect projects' usage from one requester."""

from collections.abc import Sequence
from enum import IntEnum

from weir.engine.usage.quota_overlay import QuotaOverlay


class QuotaProtection(IntEnum):
    """Degree of protection by quotas from a requester; lower ones are evicted first.

    This goes from where the paths part down to the project of the work. A queue there either holds more than
    its quota in something that is asked for, or protects what it holds.
    """

    NONE = 0  # every queue is over its quota
    BELOW = 1  # the queue below the common ancestor is over its quota, a queue below it isn't
    PARTING = 2  # the queue below the common ancestor is within its quota, all below it are over
    FULL = 3  # the queue below the common ancestor and a queue below it are within their quotas


_PROTECTIONS = tuple(QuotaProtection)  # by value: a look-up costs a fraction of the class's call


def divergence_level(asker: tuple[int, ...], victim: tuple[int, ...]) -> int:
    """Return the level at which two paths diverge; the length of the path within one project."""
    for level, (own, other) in enumerate(zip(asker, victim, strict=False)):
        if own != other:
            return level
    return min(len(asker), len(victim))


class ProtectionFinder:
    """Finds the protection of projects from one requester, by the resource rows that it requests."""

    def __init__(self, overlay: QuotaOverlay, path: tuple[int, ...], rows: Sequence[int]) -> None:
        self._overlay = overlay
        self._path = path
        self._rows = rows

    def of(self, path: tuple[int, ...]) -> QuotaProtection:
        """Return the protection of a project's usage by its path; never within the requester's project."""
        level = divergence_level(self._path, path)
        if level == len(path):
            return QuotaProtection.NONE
        found = 2 if self._within_quota(path[level]) else 0
        for queue in path[level + 1 :]:
            if self._within_quota(queue):
                return _PROTECTIONS[found + 1]
        return _PROTECTIONS[found]

    def open_to(self, *, is_owner: bool) -> list[QuotaProtection]:
        """Return the protections that the requester may override, lowest first."""
        ledger = self._overlay.ledger
        found = [QuotaProtection.NONE]
        if ledger.depth > 1:
            found.append(QuotaProtection.BELOW)
        if is_owner and any(self._may_pass_quotas(queue) for queue in self._path):
            found.append(QuotaProtection.PARTING)
            if ledger.depth > 1:
                found.append(QuotaProtection.FULL)
        return found

    @property
    def own_over_quota(self) -> bool:
        """Return True if the requester's project is over its quota of a requested resource."""
        return not self._within_quota(self._path[-1])

    def _within_quota(self, queue: int) -> bool:
        used, quota = self._overlay.used[queue], self._overlay.ledger.quota[queue]
        for row in self._rows:  # noqa: SIM110 - a generator takes twice as long, and this is asked for each victim
            if used[row] > quota[row]:
                return False
        return True

    def _may_pass_quotas(self, queue: int) -> bool:
        """Return True if guarantees among a queue and its siblings are scaled down, and one ranks lower."""
        ledger = self._overlay.ledger
        parent = ledger.parent[queue]
        siblings = ledger.top if parent < 0 else ledger.children[parent]
        return min([ledger.priority[each] for each in siblings]) < ledger.priority[queue] and any(
            self._overlay.is_scaled(parent, row) for row in self._rows
        )
