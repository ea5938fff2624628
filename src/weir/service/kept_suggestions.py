"""Suggestions that are tried in the background, so that no answer waits for them, and then cached."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from time import monotonic

from weir.api.answers import WhyAnswer
from weir.service.suggestions import SuggestionsFound

KEPT_S = 10.0
"""Time for which suggestions are cached at most, since they name durations."""
TRIALS_MAX = 16
"""Limit of workloads whose suggestions are being tried or wait for that; others begin later."""
PERSON_TRIALS_MAX = 2
"""The same limit for the workloads of one person's requests."""
Try = Callable[[], Coroutine[None, None, SuggestionsFound]]


@dataclass(frozen=True, slots=True)
class _Trial:
    version: object
    began_s: float
    task: asyncio.Task[SuggestionsFound]

    def is_over(self, now_s: float) -> bool:
        return self.task.done() and now_s - self.began_s > KEPT_S


class KeptSuggestions:
    """Suggestions by request. All calls are on the event loop."""

    def __init__(self) -> None:
        self._trials: dict[Hashable, _Trial] = {}  # in the order of their begin
        # Searches in progress, with the person who asked
        self._under_way: dict[asyncio.Task[SuggestionsFound], str] = {}

    async def find(
        self, key: Hashable, version: object, try_: Try, wait_s: float, person: str = ""
    ) -> SuggestionsFound | None:
        """Return suggestions; None if they aren't ready within the time, and a later call returns them.

        Args:
            key: identity of the request.
            version: version of the values that the trials depend on; older suggestions aren't returned.
            try_: makes the trials.
            wait_s: the time to wait at most.
            person: the person who asks; empty if persons don't count.
        """
        until_s = monotonic() + wait_s
        while (trial := self._trial(key, version, try_, person)) is None:
            left_s = until_s - monotonic()
            if left_s <= 0:
                return None
            await asyncio.wait(self._under_way, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        left_s = until_s - monotonic()
        if left_s > 0 and not trial.done():
            await asyncio.wait([trial], timeout=left_s)
        return trial.result() if trial.done() else None

    def _trial(
        self, key: Hashable, version: object, try_: Try, person: str
    ) -> asyncio.Task[SuggestionsFound] | None:
        """Return the task that makes the trials, or has made them; None if too many are running."""
        now_s = monotonic()
        self._forget(now_s)
        kept = self._trials.get(key)
        if kept is not None and kept.version == version and not kept.is_over(now_s):
            return kept.task
        own = list(self._under_way.values()).count(person) if person else 0
        if len(self._under_way) >= TRIALS_MAX or own >= PERSON_TRIALS_MAX:
            return None
        task = asyncio.create_task(try_())
        self._under_way[task] = person
        self._trials.pop(key, None)
        self._trials[key] = _Trial(version, now_s, task)
        task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: Hashable, task: asyncio.Task[SuggestionsFound]) -> None:
        """Forget a task that failed: the next request tries again."""
        del self._under_way[task]
        has_failed = task.cancelled() or task.exception() is not None
        if has_failed and (kept := self._trials.get(key)) is not None and kept.task is task:
            del self._trials[key]

    def _forget(self, now_s: float) -> None:
        """Forget the oldest suggestions whose trials have ended."""
        while self._trials and self._trials[key := next(iter(self._trials))].is_over(now_s):
            del self._trials[key]


def with_suggestions_found(answer: WhyAnswer, tried: SuggestionsFound | None) -> WhyAnswer:
    """Return an answer with the suggestions that were found; None: they aren't known yet."""
    results = SuggestionsFound() if tried is None else tried
    update = {
        "suggestions": list(results.suggestions),
        "untried": list(results.untried),
        "unfinished": tried is None,
    }
    return answer.model_copy(update=update)
