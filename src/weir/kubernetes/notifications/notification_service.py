"""Notifications of a cluster on one replica: its watches, and its term while it leads."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from structlog import get_logger

from weir.control.clock import Clock
from weir.kubernetes.api.changes import Change, ObjectRemoved, only_in
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.leader_election import Leadership
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector
from weir.kubernetes.crd.notification_objects import PLURAL, NotificationRuleObject
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.notifications.notification_term import NotificationTerm
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry
from weir.kubernetes.writes.statuses.stated_events import ENDS

if TYPE_CHECKING:  # without settings, nothing that sends is imported
    from weir.notifications.notification_settings import NotificationSettings

REMOVED_MAX, REMOVED_S = 1000, 120.0
"""Limits of the workloads deleted before their end that are kept for the next leader: number and age."""
_LOG = get_logger(__name__)


class ClusterNotifications:
    """Notifications of one replica. All calls are on the event loop.

    `account` is the namespace and name of Weir's service account. Without settings nothing is sent.
    """

    def __init__(
        self,
        api: ApiClient,
        leadership: Leadership,
        settings: "NotificationSettings | None",
        workloads: WorkloadIndex | None,
        clock: Clock,
        account: str,
        managed: ManagedNamespaces = ALL,
    ) -> None:
        self.sends = settings is not None
        self._workloads = WorkloadIndex() if workloads is None else workloads
        self._clock = clock
        self._term: NotificationTerm | None = None
        self._next_term = partial(
            NotificationTerm,
            api,
            leadership,
            settings,
            self._workloads,
            self._lately_removed,
            clock,
            account,
            managed,
        )
        self._rules: dict[str, set[str]] = defaultdict(set)  # their keys, by namespace
        self._removed: deque[tuple[float, WorkloadIndexEntry]] = deque(maxlen=REMOVED_MAX)
        path = path_of(API_VERSION, PLURAL)
        self.reflector = Reflector(api, path, NotificationRuleObject, only_in(managed, self._see_rules))

    @property
    def trouble(self) -> str:
        """Return why nothing is sent while this replica leads; empty if all is well."""
        return "" if self._term is None else self._term.trouble

    def has_rules(self, namespace: str) -> bool:
        """Return True if a namespace has rules, or may have. Any thread may call it."""
        return namespace in self._rules or not self.reflector.synced.is_set()

    def _see_rules(self, changes: Sequence[Change[NotificationRuleObject]]) -> None:
        for change in changes:
            namespace = change.key.partition("/")[0]
            if not isinstance(change, ObjectRemoved):
                self._rules[namespace].add(change.key)
            elif namespace in self._rules:
                self._rules[namespace].discard(change.key)
                if not self._rules[namespace]:
                    del self._rules[namespace]
        if self._term is not None:
            self._term.see_rules(changes)

    def see_workloads(self, changes: Sequence[Change[WorkloadObject]]) -> None:
        """Process new, changed and deleted workloads, for the index too."""
        self._note_removed(changes)
        self._workloads.deliver(changes)
        if self._term is None:
            return
        try:
            self._term.see_workloads(changes)
        except Exception:  # noqa: BLE001 - no decision depends on notifications
            _LOG.exception("notification_events_failed")

    def _note_removed(self, changes: Sequence[Change[WorkloadObject]]) -> None:
        """Remember workloads that are deleted before their end: no status will state their end."""
        for change in changes:
            if isinstance(change, ObjectRemoved) and self.has_rules(change.key.partition("/")[0]):
                gone = self._workloads.named(*change.key.split("/", 1))
                if gone is not None and gone.object.status.phase not in ENDS:
                    self._removed.append((self._clock(), gone))

    def _lately_removed(self) -> Iterator[tuple[float, WorkloadIndexEntry]]:
        oldest_s = self._clock() - REMOVED_S
        yield from (removal for removal in self._removed if removal[0] > oldest_s)

    def lead(self) -> None:
        """Begin to process events and to send messages, as the leader."""
        self._term = self._next_term()
        self._term.start()

    async def stop(self) -> None:
        """Stop sending, because this replica stops leading or ends."""
        term, self._term = self._term, None
        if term is not None:
            await term.close()
