"""Passes over the sweeps of several namespaces."""

import asyncio
import threading
from typing import Any, cast

import pytest
from tests.unit.kubernetes.writes.delivery.api_writing import until

from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.leader_election import AlwaysLeader
from weir.kubernetes.api.objects import ApiObject, Metadata
from weir.kubernetes.sweeps import sweep_pass
from weir.kubernetes.sweeps.sweep_controller import (
    TOGETHER_IN_ONE_MAX,
    TOGETHER_MAX,
    ClusterSweepController,
)
from weir.kubernetes.sweeps.sweep_pass import SweepPass
from weir.kubernetes.sweeps.trial_costs import TrialCosts
from weir.sweeps.past_trials import Suggested


async def test_sweep_waits_for_no_others_of_another_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    go_on = asyncio.Event()

    async def run(_pass: SweepPass, namespace: str, _name: str) -> bool:
        begun.append(namespace)
        await go_on.wait()
        return False

    monkeypatch.setattr(SweepPass, "run", run)
    costs = TrialCosts(lambda _: None, lambda: 0.0)
    controller = ClusterSweepController(cast(ApiClient, None), AlwaysLeader(), "weir:weir", costs)
    for reflector in controller.reflectors:
        reflector.synced.set()
    running = asyncio.create_task(controller.run())

    def deliver(namespace: str, count: int) -> None:
        for at in range(count):
            metadata = Metadata(f"s{at}", namespace=namespace)
            controller._deliver([ObjectSet(f"{namespace}/s{at}", ApiObject(metadata))])

    try:
        deliver("flood", 50)
        await until(lambda: len(begun) == TOGETHER_IN_ONE_MAX)
        deliver("other", 50)
        await until(lambda: len(begun) == TOGETHER_MAX)
        assert begun.count("flood") == TOGETHER_IN_ONE_MAX
    finally:
        running.cancel()
        await controller.close()


class CountedLeadership:
    """Leadership that counts how often it is asked."""

    term = 1

    def __init__(self, *, leads: bool) -> None:
        self.asked = 0
        self._leads = leads

    def may_write(self) -> bool:
        self.asked += 1
        return self._leads


@pytest.mark.parametrize("leads", [True, False])
async def test_sweeps_that_may_not_begin_cost_nothing(monkeypatch: pytest.MonkeyPatch, leads: bool) -> None:
    """The places are taken, or another process leads."""
    begun: list[str] = []

    async def run(_pass: SweepPass, _namespace: str, name: str) -> bool:
        begun.append(name)
        await asyncio.Event().wait()
        return False

    monkeypatch.setattr(SweepPass, "run", run)
    costs = TrialCosts(lambda _: None, lambda: 0.0)
    leadership = CountedLeadership(leads=leads)
    controller = ClusterSweepController(cast(ApiClient, None), leadership, "weir:weir", costs)
    for reflector in controller.reflectors:
        reflector.synced.set()
    for at in range(50):
        metadata = Metadata(f"s{at}", namespace=f"n{at}")
        controller._deliver([ObjectSet(f"n{at}/s{at}", ApiObject(metadata))])
    running = asyncio.create_task(controller.run())
    try:
        await asyncio.sleep(1.5)
        assert len(begun) == (TOGETHER_MAX if leads else 0)
        assert leadership.asked <= 4
    finally:
        running.cancel()
        await controller.close()


class Plan:
    """A sweep as far as its sampler is asked."""

    sampler, seed, trials = "random", 1, ()

    def space(self) -> tuple[()]:
        return ()

    def past(self) -> tuple[()]:
        return ()


async def test_samplers_of_all_sweeps_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """They compute, and share the processor with decisions."""
    threads: set[str] = set()

    def suggest(*_: object) -> Suggested:
        threads.add(threading.current_thread().name)
        return Suggested({})

    async def run(one: SweepPass, namespace: str, _name: str) -> bool:
        plan: Any = Plan()
        await asyncio.gather(*(one._suggested(namespace, plan, plan) for _ in range(8)))
        return False

    monkeypatch.setattr(sweep_pass, "suggest", suggest)
    monkeypatch.setattr(SweepPass, "run", run)
    costs = TrialCosts(lambda _: None, lambda: 0.0)
    controller = ClusterSweepController(cast(ApiClient, None), AlwaysLeader(), "weir:weir", costs)
    await asyncio.gather(*(pass_of(controller, f"n{at}/s") for at in range(4)))
    assert [name.startswith("weir-samplers") for name in threads] == [True]


async def pass_of(controller: ClusterSweepController, key: str) -> None:
    """Carry out a pass over a sweep."""
    controller._passes[key] = asyncio.create_task(controller._pass(key))
    await controller._passes[key]
