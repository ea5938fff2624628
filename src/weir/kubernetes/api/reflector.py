"""A copy of one resource, kept up to date by a list and a watch from its version on.

Receivers of the changes can rely on this: applied in order to an empty state, they give the state of the
server. Nothing is missed, and nothing comes twice. In particular

- a watch that breaks off goes on after the last event that was taken in;
- where the server has forgotten what came after it (410), everything is listed again and compared, so
  that each object deleted meanwhile gives an `ObjectRemoved`: no event will ever come for it;
- an object that was deleted and made again under the same name is `ObjectRemoved` and then `ObjectSet`,
  even if neither was seen to happen: it is another one;
- a watch on which nothing comes is not trusted for long: a server that was restored from a backup lets us
  wait for a version that it has yet to reach. It is asked how far it is, and if it went back, listed again.

What is remembered of each object is its key, uid and resource version.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from random import Random
from typing import Generic

from structlog import get_logger

from weir.kubernetes.api.backoff import Backoff
from weir.kubernetes.api.changes import Change, HasMetadata, ObjectRemoved, ObjectSet, ObjectUnreadable, T
from weir.kubernetes.api.client import ApiClient, ApiSilent
from weir.kubernetes.api.decoding import BookmarkObject, UndecodedObject, WatchEvent, read, read_object
from weir.kubernetes.api.errors import (
    ApiError,
    ApiRefused,
    ApiUnreachable,
    NotFound,
    ResourceExpired,
    TooManyRequests,
)
from weir.kubernetes.api.gc_control import collector_paused, freeze
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import key_of

_LOG = get_logger(__name__)
FREEZE_FROM = 10_000
"""Number of listed objects from which on they are excluded from garbage collection."""

LOOK_AGAIN_AFTER_S = 0.5
"""A kind that the server doesn't have isn't looked for more often."""
FAULTS_MAX = 3
"""Consecutive server errors after which the resource is listed again."""


@dataclass(frozen=True, slots=True)
class RetryDelays:
    """Delays before retries."""

    first_s: float = 0.2
    most_s: float = 30.0
    absent_s: float = 30.0  # for a kind that the server doesn't have


@dataclass(slots=True)
class ReflectorCounts:
    """Counts of lists, watches and errors so far."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    changes: int = 0  # delivered
    removed_unseen: int = 0  # of these, deletions for which there was no event
    unreadable: int = 0
    gone: int = 0
    silences: int = 0
    failures: int = 0
    faults: int = 0  # faults of Weir, not of the server


class Reflector(Generic[T]):
    """Reflector of one resource, or of the objects of it that selectors choose. `run` it as a task."""

    def __init__(
        self,
        api: ApiClient,
        path: str,
        object_type: type[T],
        deliver: Callable[[Sequence[Change[T]]], None],
        *,
        field_selector: str = "",
        label_selector: str = "",
        waits: RetryDelays = RetryDelays(),
        chance: Random | None = None,
    ) -> None:
        self._api = api
        self._path = path
        self._object_type = object_type
        self._deliver = deliver
        self._selectors = {"field_selector": field_selector, "label_selector": label_selector}
        self._waits = waits
        self._chance = chance or Random()  # noqa: S311 - nothing here is secret
        self._backoff = Backoff(waits.first_s, waits.most_s, self._chance)
        self._versions_by_key: dict[str, tuple[str, str]] = {}  # uid and resource version by key
        self._resource_version = ""  # "": it has to be listed
        self.synced = asyncio.Event()
        """True once all objects were delivered. A kind that the server doesn't have counts as empty."""
        self.absent = False
        self._looked_for = asyncio.Event()
        self.failure = ""
        self.heard_s = -float("inf")
        """Return the time of the last answer of the server, by the monotonic clock."""
        self.counts = ReflectorCounts()

    def __len__(self) -> int:
        return len(self._versions_by_key)

    def look_again(self) -> None:
        """Check at once for a kind that the server didn't have."""
        self._looked_for.set()

    async def run(self, *, until_absent: bool = False) -> None:
        """List and watch, for ever, or until the server doesn't have the kind.

        In the second case no object is reported as removed then: another version may have them.
        """
        while True:
            try:
                if not self._resource_version:
                    await self._list()
                try:
                    await self._watch()
                except ApiSilent:
                    await self._look_whether_it_went_back()
            except NotFound as error:
                rest_s = self._after(error)
                if until_absent:
                    return
                self.forget_all()
                await self._rest(rest_s)
            except ApiError as error:
                await asyncio.sleep(self._after(error))
            except Exception as error:  # noqa: BLE001 - one resource's fault must not end the others' watches
                _LOG.error("watch_broken", path=self._path, exc_info=error)
                self.failure = f"{type(error).__name__} in the watch"
                self.counts.faults += 1
                self._resource_version = ""
                self._versions_by_key = {
                    key: (uid, "") for key, (uid, _) in self._versions_by_key.items()
                }  # all objects are delivered again
                await asyncio.sleep(self._backoff.next_s())

    async def _rest(self, for_s: float) -> None:
        """Wait before the next check of a missing kind: for this time, or until the kind is needed."""
        await asyncio.sleep(min(for_s, LOOK_AGAIN_AFTER_S))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._looked_for.wait(), max(0.0, for_s - LOOK_AGAIN_AFTER_S))
        self._looked_for.clear()

    def _after(self, error: ApiError) -> float:
        """Draw the consequences of a failure; how long to wait."""
        self.failure = str(error)
        self.counts.failures += 1
        if isinstance(error, NotFound):
            self._resource_version = ""
            self.heard_s = time.monotonic()
            self.absent = True
            self.synced.set()
            return self._waits.absent_s
        if isinstance(error, TooManyRequests):
            return error.retry_after_s * self._chance.uniform(1.0, 1.5)
        self.counts.gone += isinstance(error, ResourceExpired)
        if not self._passes(error):
            self._resource_version = ""
        return self._backoff.next_s()

    def _passes(self, error: ApiError) -> bool:
        """Return True if the watch can continue after an error; otherwise everything is listed again."""
        if isinstance(error, ApiUnreachable):
            return True
        return isinstance(error, ApiRefused) and error.status >= 500 and self._backoff.tries < FAULTS_MAX

    async def _look_whether_it_went_back(self) -> None:
        """Read the server's version after a long silence; list again if it decreased."""
        self.counts.silences += 1
        now_there = await self._api.version_of(self._path, **self._selectors)
        self.heard_s = time.monotonic()
        numbers = now_there.isdigit() and self._resource_version.isdigit()
        if not numbers or int(now_there) < int(self._resource_version):
            self._resource_version = ""

    async def _list(self) -> None:
        """List all objects, and deliver the differences from the known ones.

        The first list comes in pieces, because it may be large. Later lists come at once, removals
        first, so that no receiver sees an object beside the one that replaced it.
        """
        self.counts.lists += 1
        first = not self.synced.is_set()
        now_there: dict[str, tuple[str, str]] = {}
        changes: list[Change[T]] = []
        resource_version = ""
        pieces = self._api.pieces(self._path, self._object_type, **self._selectors)
        with collector_paused():
            async with aclosing(pieces):
                async for page in pieces:
                    self.heard_s = time.monotonic()
                    for item in page.items:
                        key, uid, version = _identity(item)
                        changes += self._differences(key, uid, version, item)
                        now_there[key] = uid, version
                        if first:
                            self._versions_by_key[key] = uid, version
                    if first:
                        self._tell(changes)
                        changes = []
                    resource_version = page.resource_version
            removed = [
                ObjectRemoved(key, uid)
                for key, (uid, _) in self._versions_by_key.items()
                if key not in now_there
            ]
            self.counts.removed_unseen += len(removed)
            self._versions_by_key = now_there
            self._tell([*removed, *changes])
            if len(now_there) >= FREEZE_FROM:
                freeze()
        self._resource_version = resource_version
        self.absent = False
        self.failure = ""
        self.synced.set()

    async def _watch(self) -> None:
        """Process changes until the watch ends."""
        self.counts.watches += 1
        heard = False
        batches = self._api.watch(
            self._path,
            resource_version=self._resource_version,
            for_s=self._api.limits.watch_s * self._chance.uniform(0.5, 1.0),
            **self._selectors,
        )
        async with aclosing(batches):
            async for events in batches:
                self._take_in(events)
                self.heard_s = time.monotonic()
                self.failure = ""
                self._backoff.reset()
                heard = True
        if not heard:  # a server that ends every watch at once isn't asked again at once
            await asyncio.sleep(self._backoff.next_s())

    def _take_in(self, events: Sequence[WatchEvent]) -> None:
        changes: list[Change[T]] = []
        try:
            for event in events:
                self._resource_version = self._take_in_one(event, changes)
        finally:  # deliver the events before an unreadable one, too
            self._tell(changes)

    def _take_in_one(self, event: WatchEvent, changes: list[Change[T]]) -> str:
        """Add the change of this event; return the resource version after it."""
        if event.type == "BOOKMARK":
            return read(event.object, BookmarkObject).metadata.resource_version
        self.counts.events += 1
        if event.type == "DELETED":
            key, _, version = _identity(read(event.object, ApiObject))
            uid, _ = self._versions_by_key.pop(key, ("", ""))
            if uid:
                changes.append(ObjectRemoved(key, uid))
            return version
        item = read_object(event.object, self._object_type, is_cut=event.is_cut)
        key, uid, version = _identity(item)
        changes += self._differences(key, uid, version, item)
        self._versions_by_key[key] = uid, version
        return version

    def _differences(
        self, key: str, uid: str, version: str, item: T | UndecodedObject
    ) -> Iterator[Change[T]]:
        """Yield the changes to report for an object, given its last known version."""
        known_uid, known_version = self._versions_by_key.get(key, (uid, ""))
        if known_uid != uid:
            yield ObjectRemoved(key, known_uid)
        elif known_version == version:
            return
        if isinstance(item, UndecodedObject):
            self.counts.unreadable += 1
            yield ObjectUnreadable(key, uid, item.sentence, item.body)
        else:
            yield ObjectSet(key, item)

    def forget_all(self) -> None:
        """Report all objects as removed, because the server no longer has this kind."""
        self._tell([ObjectRemoved(key, uid) for key, (uid, _) in self._versions_by_key.items()])
        self._versions_by_key = {}

    def hand_over(self) -> dict[str, str]:
        """Return the uids of known objects by key, and forget the objects: another API version follows."""
        uids = {key: uid for key, (uid, _) in self._versions_by_key.items()}
        self._versions_by_key = {}
        return uids

    def take_over(self, uids: Mapping[str, str]) -> None:
        """Take over the objects of another API version: the next list reports them, or their deletion."""
        self._versions_by_key = {key: (uid, "") for key, uid in uids.items()}

    def _tell(self, changes: Sequence[Change[T]]) -> None:
        if changes:
            self.counts.changes += len(changes)
            self._deliver(changes)


def _identity(item: HasMetadata | UndecodedObject) -> tuple[str, str, str]:
    """Return key, uid and resource version."""
    metadata = item.api_object.metadata if isinstance(item, UndecodedObject) else item.metadata
    return key_of(metadata.namespace, metadata.name), metadata.uid, metadata.resource_version
