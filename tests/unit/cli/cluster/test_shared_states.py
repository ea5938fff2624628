"""States of workloads that the watches of a dashboard share: asked with the rights of each person."""

import asyncio
import gc
from collections.abc import Mapping
from typing import Any

from weir.cli.cluster.dashboard.shared_states import SharedStates, WorkloadStates

PARKED = {"parked": ["vision/a"]}


class Weir:
    """Answer with the states of all namespaces, or of the only one that a person may read."""

    def __init__(self) -> None:
        self.version, self.states = "1", PARKED
        self.transferred = self.asked = 0

    def for_person(self, namespace: str = "") -> Any:
        async def ask(params: Mapping[str, str]) -> dict[str, Any]:
            assert params["fields"] == "activity"
            self.asked += 1
            await asyncio.sleep(0)
            version = f"{namespace}{self.version}"
            is_known = params["known"] == version
            self.transferred += not is_known
            states = None if is_known else self.states
            return {"items": [], "namespace": namespace, "version": version, "states": states}

        return ask


async def test_a_change_is_transferred_once_for_all_watches_and_each_asks_for_itself() -> None:
    weir, shared = Weir(), SharedStates()
    shown = [await shared.read(WorkloadStates(), weir.for_person()) for _ in range(5)]
    assert {id(each) for each in shown} == {id(shown[0])}
    assert shown[0].by_name == {"vision/a": "parked"}
    assert (weir.asked, weir.transferred) == (5, 1)
    weir.version, weir.states = "2", {"working": ["vision/a"]}
    shown = [await shared.read(each, weir.for_person()) for each in shown]
    assert {each.by_name["vision/a"] for each in shown} == {"working"}
    assert (weir.asked, weir.transferred) == (10, 2)


async def test_watches_that_read_at_once_share_one_copy() -> None:
    weir, shared = Weir(), SharedStates()
    first, second = await asyncio.gather(
        shared.read(WorkloadStates(), weir.for_person()), shared.read(WorkloadStates(), weir.for_person())
    )
    assert first is second


async def test_a_person_of_one_namespace_gets_its_states_and_leaves_those_of_the_others_alone() -> None:
    weir, shared = Weir(), SharedStates()
    everything = await shared.read(WorkloadStates(), weir.for_person())
    weir.states = {"starved": ["vision/a"]}
    own = await shared.read(WorkloadStates(), weir.for_person("vision"))
    assert (own.namespace, own.by_name) == ("vision", {"vision/a": "starved"})
    assert await shared.read(own, weir.for_person("vision")) is own
    assert await shared.read(everything, weir.for_person()) is everything
    assert weir.transferred == 2


async def test_without_an_answer_the_states_stay_and_an_older_weir_has_none() -> None:
    weir, shared = Weir(), SharedStates()
    shown = await shared.read(WorkloadStates(), weir.for_person())

    async def refused(_: Mapping[str, str]) -> None:
        return None

    async def older(_: Mapping[str, str]) -> dict[str, Any]:
        return {"total": 1, "next": None, "items": [{"name": "vision/a"}]}

    assert await shared.read(shown, refused) is shown
    assert not (await shared.read(shown, older)).by_name


async def test_states_that_no_watch_shows_are_forgotten() -> None:
    weir, shared = Weir(), SharedStates()
    shown: WorkloadStates | None = await shared.read(WorkloadStates(), weir.for_person())
    del shown
    gc.collect()
    await shared.read(WorkloadStates(), weir.for_person())
    assert weir.transferred == 2
