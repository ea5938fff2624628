"""Controller of the sweeps of a cluster, in the process that leads.

Each pass over a sweep begins with the object as the API server has it, and decides by that alone. A decision
is in the status before its Job is made. The status is written only over the version that was read. The name
of a Job says which trial it runs to which rung. So nothing is lost and nothing begun twice, whenever a
process ends.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from structlog import get_logger

from weir.control.fair_queue import Turns
from weir.kubernetes.api.changes import Change, ObjectSet, ObjectUnreadable, only_in
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, Conflict
from weir.kubernetes.api.leader_election import Leadership
from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.crd.sweep_objects import PLURAL
from weir.kubernetes.sweeps.observed_jobs import ObservedJobs, TrialObject
from weir.kubernetes.sweeps.sampler_thread import SamplerThread
from weir.kubernetes.sweeps.sweep_pass import JOBS, SweepPass, SweepWaits
from weir.kubernetes.sweeps.termination_results import TrialRunView
from weir.kubernetes.sweeps.trial_costs import TrialCosts
from weir.kubernetes.sweeps.trial_jobs import SWEEP_LABEL
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard, NotLeading

PASS_S = 0.25
"""Passes over one sweep are no closer to one another."""
LOOK_S, STANDBY_S = 5.0, 1.0
"""Longest waits for a change while this process leads, and while another one does."""
RETRY_S, RETRY_S_MAX = 1.0, 30.0
TOGETHER_MAX = 8
"""Sweeps that have a pass at the same time."""
TOGETHER_IN_ONE_MAX = 6
"""The same of one namespace: its samplers may take long, and the others don't wait for them."""
_LOG = get_logger(__name__)


class ClusterSweepController:
    """Sweeps of one cluster; `account` is the namespace and name of Weir's service account.

    `clock` has the times that are written and compared with those of objects.
    """

    def __init__(
        self,
        api: ApiClient,
        leadership: Leadership,
        account: str,
        costs: TrialCosts,
        managed: ManagedNamespaces = ALL,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._clock = clock
        self._leadership = leadership
        self._account = account
        self._costs = costs
        self._observed = ObservedJobs(self._touch, clock)
        self._due_s: dict[str, float] = {}  # time of the next pass by sweep; without finished sweeps
        self._sweeps: set[str] = set()
        self._failures: dict[str, int] = {}
        self._passes: dict[str, asyncio.Task[None]] = {}
        self._turns = Turns()
        self._samplers = SamplerThread()
        self._wake = asyncio.Event()
        self._term: int | None = None
        selector, seen = SWEEP_LABEL, self._observed
        jobs, pods = path_of(JOBS, "jobs"), path_of("v1", "pods")
        self.reflectors: list[Reflector[Any]] = [
            Reflector(api, path_of(API_VERSION, PLURAL), ApiObject, only_in(managed, self._deliver)),
            Reflector(api, jobs, TrialObject, seen.deliver_jobs, label_selector=selector),
            Reflector(api, pods, TrialRunView, seen.deliver_pods, label_selector=selector),
        ]
        """Watches that it needs."""

    async def run(self) -> None:
        """Go on with all sweeps while this process leads, for ever."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.reflectors))
        while True:
            now_s = time.monotonic()
            wait_s = self._begin(now_s) if self._leadership.may_write() else STANDBY_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait_s)
            self._wake.clear()

    def _begin(self, now_s: float) -> float:
        """Begin the passes that may begin now, and return the time until the next one is due.

        Sweeps that are due and wait for a place aren't counted: the end of a pass wakes the controller.
        """
        if self._term != self._leadership.term:
            self._term = self._leadership.term
            self._due_s = dict.fromkeys(self._sweeps, 0.0)
        for key in self._next(now_s):
            del self._due_s[key]
            self._passes[key] = asyncio.create_task(self._pass(key))
        return min([LOOK_S, *(due_s - now_s for due_s in self._due_s.values() if due_s > now_s)])

    def _next(self, now_s: float) -> list[str]:
        """Return the sweeps whose pass begins now: namespaces take turns, and have a limit each."""
        under_way = Counter(map(_namespace, self._passes))
        free: list[str] = []
        for key in [key for key, due_s in self._due_s.items() if due_s <= now_s and key not in self._passes]:
            if under_way[_namespace(key)] < TOGETHER_IN_ONE_MAX:
                under_way[_namespace(key)] += 1
                free.append(key)
        return list(islice(self._turns.take(free, _namespace), TOGETHER_MAX - len(self._passes)))

    async def close(self) -> None:
        """Stop the running passes."""
        passes = list(self._passes.values())
        for task in passes:
            task.cancel()
        await asyncio.gather(*passes, return_exceptions=True)

    def _deliver(self, changes: Sequence[Change[ApiObject]]) -> None:
        for change in changes:
            if isinstance(change, ObjectSet):
                self._sweeps.add(change.key)
                self._touch(change.key)
            elif isinstance(change, ObjectUnreadable):
                _LOG.warning("sweep_unreadable", sweep=change.key, why=change.sentence)
            else:
                self._sweeps.discard(change.key)
                self._costs.tell(change.key, {})
                self._due_s.pop(change.key, None)
                self._failures.pop(change.key, None)

    def _touch(self, key: str) -> None:
        """Look at a sweep soon."""
        if key in self._sweeps:
            due_s = time.monotonic() + (PASS_S if key in self._passes else 0.0)
            self._due_s[key] = min(self._due_s.get(key, due_s), due_s)
            self._wake.set()

    async def _pass(self, key: str) -> None:
        """Go on with one sweep; failures are tried again, and keep no other sweep waiting."""
        namespace, _, name = key.partition("/")
        guard = LeaderGuard(self._api, self._leadership, self._leadership.term, self._clock)
        one = SweepPass(guard, self._api, self._observed, self._costs, self._account, self._samplers)
        try:
            await one.run(namespace, name)
            self._failures.pop(key, None)
        except NotLeading:
            pass
        except Conflict:
            # A person or another writer changed it: the next pass reads it again
            self._due_s[key] = time.monotonic() + PASS_S
        except (SweepWaits, ApiError) as error:
            _LOG.warning("sweep_waits", sweep=key, why=str(error))
            self._again(key)
        except Exception:  # noqa: BLE001 - one sweep that fails doesn't stop the others
            _LOG.exception("sweep_failed", sweep=key)
            self._again(key)
        finally:
            await asyncio.sleep(PASS_S)
            del self._passes[key]
            self._wake.set()

    def _again(self, key: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause_s = min(RETRY_S * 2 ** min(failures - 1, 10), RETRY_S_MAX)
        self._due_s[key] = time.monotonic() + pause_s


def _namespace(key: str) -> str:
    return key.partition("/")[0]
