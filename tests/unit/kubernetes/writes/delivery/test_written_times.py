"""Times that the leader writes are those of the API server: the clock of its machine may be wrong."""

import asyncio
from typing import Any, cast

from tests.unit.kubernetes.writes.delivery.api_writing import until

from weir.kubernetes.api.leader_election import AlwaysLeader
from weir.kubernetes.writes.delivery.api_writer import ApiWriter
from weir.kubernetes.writes.operations import EmitEvent, EventSubject, Evict, PodCondition

AT_S = 1_000_000_000.5


class Recorded:
    """An API server that keeps the bodies of writes."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def post(self, _path: str, body: Any, _of: Any) -> None:
        self.bodies.append(body)

    async def patch(self, _path: str, body: Any, _kind: Any, _of: Any) -> None:
        self.bodies.append(body)


async def test_events_and_conditions_have_the_times_of_the_given_clock() -> None:
    api = Recorded()
    writer = ApiWriter(cast(Any, api), AlwaysLeader(), lambda *_: None, clock=lambda: AT_S)
    about = EventSubject("v1", "Pod", "train-0", "team", "u1")
    writer.recorder.say(EmitEvent(about, "Waiting", "It waits."))
    writer.submit(
        [Evict("team", "train-0", "u1", ends=PodCondition("DisruptionTarget", "PreemptedByWeir", "x"))]
    )
    running = asyncio.create_task(writer.run())
    await until(lambda: len(api.bodies) >= 3)
    running.cancel()
    (event,) = (each for each in api.bodies if "eventTime" in each)
    assert event["eventTime"] == "2001-09-09T01:46:40.500000Z"
    (condition,) = (each["status"]["conditions"][0] for each in api.bodies if "status" in each)
    assert condition["lastTransitionTime"] == "2001-09-09T01:46:40Z"
