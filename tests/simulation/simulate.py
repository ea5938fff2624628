"""Simulation from its seed to its end, under faults, checked against the invariants.

python -m tests.simulation.simulate SEED          replay one, with its story
python -m tests.simulation.simulate --from N      one seed after another until one fails
"""

import sys
from collections import Counter
from collections.abc import Callable
from itertools import count

from weir.control.clock import Clock
from weir.control.loop import Control, Decide
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide as engine
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.events import Event, NoteAdded, WorkloadEnded

from . import invariants
from .faults import FaultyCluster, InjectedCrash
from .random_case import Case, case

STEPS_MAX = 50_000
STEPS_AN_INSTANT_MAX = 500
END_S_MAX = 40 * 86400.0


class Story:
    """A reader that remembers everything, for the reader of a failure."""

    def __init__(self, tell: Callable[[str], None] | None) -> None:
        self.ended: Counter[str] = Counter()
        self.reported: Counter[tuple[str, str]] = Counter()
        self.log: list[str] = []
        self._tell = tell

    def note(self, text: str) -> None:
        """Add a line."""
        self.log.append(text)
        if self._tell is not None:
            self._tell(text)

    def happened(self, event: Event) -> None:
        """An event was reduced."""
        if isinstance(event, WorkloadEnded):
            self.ended[event.workload] += 1
        elif isinstance(event, NoteAdded):
            self._noted(event)
        self.note(f"    {event}")

    def _noted(self, event: NoteAdded) -> None:
        """No workload is ended for idling, or for the age of a session, that wasn't warned."""
        invariants.hold(bool(event.sentence), f"{event.kind} of {event.workload} without a sentence")
        if event.kind in ("idle", "lifetime"):
            warned = (event.workload, f"{event.kind}_warning") in self.reported
            invariants.hold(warned, f"{event.workload} is ended by {event.kind} without a warning")
        self.reported[event.workload, event.kind] += 1

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        """The engine answered."""
        if plan.acts:
            self.note(f"  {now_s:.3f}: plan of {len(plan.binds)} binds, {len(plan.evictions)} evictions")


class Simulation:
    """A simulation, from its seed."""

    def __init__(
        self,
        case_: Case,
        decide: Decide,
        tell: Callable[[str], None] | None = None,
        wall: Callable[[float], float] | None = None,
    ) -> None:
        """`wall`: the wall clock's time at a time of the simulation; None: control reads the simulation's clock."""
        self.case = case_
        self.world = FaultyCluster(
            case_.scenario, case_.job_traces, case_.faults, measured_every_s=case_.measured_every_s
        )
        self.jumps: list[float] = []
        self.clock: Callable[[], float] = self.world.clock
        if wall is not None:
            now = self.world.clock
            self.clock = Clock(starts_s=now(), wall=lambda: wall(now()), boot=now, jumped=self.jumps.append)
        self.story = Story(tell)
        self._engine = decide
        self._acted = False
        self._steps = 0
        self._rebuilt: tuple[Control, int] | None = None
        self.control = self._connected()

    def _connected(self) -> Control:
        self._connected_s = self.world.now_s
        return Control(self.world, self.case.policy, self.clock, readers=(self.story,), decide=self._decide)

    def _decide(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        """The engine's plan, held against the one it makes without its memory."""
        plan = self._engine(cluster, policy, now_s, cache)
        invariants.of_plan(plan, self._engine(cluster, policy, now_s, EngineCache()))
        self._acted = plan.acts
        return plan

    def run(self) -> None:
        """Run it to its end.

        Raises:
            Untrue: something that is always true wasn't.
        """
        world = self.world
        while True:
            self._instant()
            world_s, wakes_s = world.next_s(), self.control.wakes_s
            if (world_s is None and wakes_s is None) or (world_s is None and not world.runs):
                break
            next_s = min(at_s for at_s in (world_s, wakes_s) if at_s is not None)
            invariants.hold(next_s >= world.now_s, f"woken at {world.now_s} for {next_s}")
            invariants.hold(next_s < END_S_MAX, f"these never end: {sorted(world.runs)}")
            world.advance_to(next_s)
        invariants.hold(not world.runs, f"these never ended: {sorted(world.runs)}")
        names = {job_trace.workload.name for job_trace in self.case.job_traces}
        invariants.hold(
            set(self.story.ended) == names, f"never ended: {sorted(names - set(self.story.ended))}"
        )

    def _instant(self) -> None:
        """Step until nothing happens at this instant."""
        for step in count():
            invariants.hold(step < STEPS_AN_INSTANT_MAX, f"{self.world.now_s} s never comes to rest")
            self._step()
            self._check()
            if not self.world.has_news:
                return

    def _step(self) -> None:
        self._steps += 1
        self._acted = False
        invariants.hold(self._steps < STEPS_MAX, "takes too many steps")
        if isinstance(self.clock, Clock):
            _ = self.clock.ahead_s  # as the server notices jumps
        while True:
            try:
                self.control.step()
            except InjectedCrash:
                self.story.note(f"  {self.world.now_s:.3f}: the scheduler died; a new one connects")
                self.world.connect()
                self.control = self._connected()
            else:
                return

    def _check(self) -> None:
        invariants.of_world(self.world)
        invariants.of_cluster(self.control.cluster, self.case.policy, self.world.now_s)
        invariants.of_times(self.control.cluster, self.case.policy, self.world, self._connected_s)
        self._check_rebuilt()
        if not self._acted:
            invariants.of_waiting(self.control.cluster, self.case.policy, self.world.now_s)

    def _check_rebuilt(self) -> None:
        """Compare the state with one from scratch, unless nothing happened since the last comparison."""
        now = self.control, len(self.story.log)
        if now != self._rebuilt:
            invariants.of_rebuilt(self.control.cluster)
            self._rebuilt = now


def endure(seed: int, decide: Decide = engine, tell: Callable[[str], None] | None = None) -> Story:
    """The simulation of a seed.

    Raises:
        AssertionError: something was wrong; the message says how to replay it.
    """
    simulation = Simulation(case(seed), decide, tell)
    try:
        simulation.run()
    except Exception as error:  # whatever it was, it says how to replay it
        answer = f"{type(error).__name__}: {error}\nreplay it: python -m tests.simulation.simulate {seed}"
        raise AssertionError(answer) from error
    return simulation.story


def main(words: list[str]) -> None:
    """Replay one seed, or go through one after another."""
    if words[:1] == ["--from"]:
        for seed in count(int(words[1])):
            endure(seed)
            if seed % 100 == 0:
                print(f"seed {seed}", flush=True)
        return
    try:
        endure(int(words[0]), tell=print)
    except AssertionError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
