"""Times of sweeps are those of the API server: the clock of this machine may be wrong."""

import asyncio
from typing import Any, cast

import msgspec
from tests.unit.kubernetes.sweeps.test_observed_jobs import JOB, NOW_S, POD, pod
from tests.unit.kubernetes.writes.delivery.api_writing import until

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.leader_election import AlwaysLeader
from weir.kubernetes.api.objects import ApiObject, Metadata
from weir.kubernetes.crd.sweep_objects import SweepObject
from weir.kubernetes.sweeps.observed_jobs import TrialObject
from weir.kubernetes.sweeps.sweep_controller import ClusterSweepController
from weir.kubernetes.sweeps.trial_costs import TrialCosts

SWEEP = "vision/digits"


class Api:
    """An API server with a sweep that can't be read, which keeps the bodies of writes."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def get(self, _path: str, _of: Any) -> SweepObject:
        return SweepObject(Metadata("digits", uid="s", namespace="vision"))

    async def patch(self, _path: str, body: Any, _kind: Any, _of: Any) -> SweepObject:
        self.bodies.append(body)
        return await self.get("", None)


def controller_of(api: Api) -> ClusterSweepController:
    costs = TrialCosts(lambda _: None, lambda: 0.0)
    return ClusterSweepController(
        cast(Any, api), AlwaysLeader(), "weir:weir", costs, clock=lambda: NOW_S + 0.5
    )


async def test_the_end_of_a_sweep_has_the_time_of_the_api_server() -> None:
    api = Api()
    controller = controller_of(api)
    for reflector in controller.reflectors:
        reflector.synced.set()
    running = asyncio.create_task(controller.run())
    try:
        controller._deliver([ObjectSet(SWEEP, ApiObject(Metadata("digits", namespace="vision")))])
        await until(lambda: bool(api.bodies))
    finally:
        running.cancel()
        await controller.close()
    status = api.bodies[0]["status"]
    assert (status["phase"], status["endedAt"]) == ("Failed", "2026-01-31T12:01:40Z")


def test_an_evicted_pod_ran_until_now_by_the_clock_of_the_api_server() -> None:
    observed = controller_of(Api())._observed
    metadata = {"name": "digits-0-0", "namespace": "vision"}
    observed.deliver_jobs([ObjectSet(JOB, msgspec.convert({"metadata": metadata}, TrialObject))])
    observed.deliver_pods([ObjectSet(POD, pod({"running": {"startedAt": "2026-01-31T12:00:00Z"}}))])
    observed.deliver_pods([ObjectRemoved(POD, "u")])
    assert observed.evicted_s(JOB) == {"u": 100.5}
