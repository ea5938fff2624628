"""A fault of the engine that one workload leads to: it is set aside, and all others are scheduled."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.control.fault_isolation import AT_ONCE_MAX, RETRY_AFTER_S
from weir.control.loop import Control
from weir.control.port import Effect, Fact, StartPod
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.events import NodeSet

from .harness import GROUND, gang


class Faulty:
    """A backend before an engine that breaks where it meets any of these workloads, or all of them at once."""

    def __init__(self, *facts: Fact, faulty: Sequence[str], together: bool = False) -> None:
        self.now_s, self.decisions = 0.0, 0
        self.faulty, self.together = set(faulty), together
        self.started: set[str] = set()
        self._facts: list[Fact] = [NodeSet(_large()), *GROUND[1:], *facts]
        self.control = Control(self, Policy(), lambda: self.now_s, decide=self._decide, isolates_faults=True)

    def _decide(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        self.decisions += 1
        met = {member[1] for queued in cluster.waiting.values() for member in queued.members} & self.faulty
        if (met == self.faulty if self.together else met) and self.faulty:
            raise ZeroDivisionError("division by zero")
        return decide(cluster, policy, now_s, cache)

    def events(self) -> Iterable[Fact]:
        facts, self._facts = self._facts, []
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        self.started |= {effect.place.pod.workload for effect in effects if isinstance(effect, StartPod)}

    def held(self) -> set[str]:
        return {name for name, job in self.control.cluster.jobs.items() if job.held}


def _large() -> Node:
    return Node("node", 64, 16 << 30, {"cpu": 64_000_000, "memory": 1 << 50, "pods": 9999})


def test_one_faulty_workload_is_set_aside_with_a_reason_and_tried_again_later() -> None:
    names = [f"job-{index}" for index in range(20)]
    scene = Faulty(*(gang(name, 1) for name in names), faulty=["job-7"])
    scene.control.step()
    assert scene.started == set(names) - {"job-7"}
    job = scene.control.cluster.jobs["job-7"]
    reported = "the scheduler failed on this workload (ZeroDivisionError: division by zero) and will try it again later"
    assert (job.held_why, job.held_until_s) == (reported, RETRY_AFTER_S)
    assert scene.decisions <= 9, "it is found by halves"
    scene.faulty.clear()
    assert scene.control.wakes_s == RETRY_AFTER_S
    scene.now_s = RETRY_AFTER_S
    scene.control.step()
    assert scene.started == set(names)


@settings(deadline=None, max_examples=20)
@given(st.sets(st.integers(0, 15), max_size=AT_ONCE_MAX), st.booleans())
def test_any_few_faulty_workloads_keep_no_other_from_being_scheduled(bad: set[int], together: bool) -> None:
    names = [f"job-{index:02}" for index in range(16)]
    faulty = [names[index] for index in bad]
    scene = Faulty(*(gang(name, 1) for name in names), faulty=faulty, together=together)
    scene.control.step()
    held = scene.held()
    assert scene.started == set(names) - held
    assert held == set(faulty) or (together and held <= set(faulty) and len(held) == 1)


def test_a_fault_without_any_pending_workload_or_in_too_many_is_raised() -> None:
    scene = Faulty(gang("one", 1), faulty=["one"])
    scene.control._decide = lambda *_: Plan(**{"no such": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        scene.control.step()
    names = [f"job-{index}" for index in range(AT_ONCE_MAX + 1)]
    scene = Faulty(*(gang(name, 1) for name in names), faulty=names)
    with pytest.raises(ZeroDivisionError):
        scene.control.step()


def test_running_pods_of_a_faulty_workload_go_on() -> None:
    scene = Faulty(gang("elastic", 3, least=1), faulty=[])
    scene.control.step()
    scene.faulty.add("elastic")
    scene._facts.append(gang("later", 1))
    scene.control.step()
    assert scene.started == {"elastic", "later"}
    assert len(scene.control.cluster.jobs["elastic"].running_pods()) == 3
