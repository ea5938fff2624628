"""Nominations are known before the evictions that are for them are sent."""

from typing import Any

import pytest

from weir.engine.allocation.nominations import BLOCKED_S
from weir.kubernetes import backend
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.writes.operations import Bind, Evict, WriteDone

from .small_world import job, node, pod, project
from .test_backend import Scene


def running(bind: Bind) -> KubePod:
    at = bind.name.split("-")[1]
    return pod(
        bind.name,
        owner=(f"one-{at}", f"o{at}"),
        namespace="lender",
        on=bind.node,
        start=int(bind.annotations["weir.dev/start"]),
        devices=bind.annotations["weir.dev/gpus"],
        phase="Running",
    )


def borrowed(gpus: int) -> Scene:
    """Return a cluster of eight GPUs, of which a project without quota holds as many as another one owns."""
    here = Scene()
    here.hear("nodes", *(node(f"n{at}", gpus=2) for at in range(4)))
    here.hear("projects", project("team", gpus=gpus), project("lender", gpus=0))
    here.hear("owners", *(job(f"one-{at}", f"o{at}", 1, namespace="lender") for at in range(gpus)))
    here.hear(
        "pods", *(pod(f"one-{at}-0", owner=(f"one-{at}", f"o{at}"), namespace="lender") for at in range(gpus))
    )
    for bind in here.step():
        here.backend.take_outcome(bind, WriteDone())
        here.hear("pods", running(bind))
    return here


def grown() -> tuple[Scene, list[Evict]]:
    """An elastic workload has three pods, and GPUs are freed for two more, in one plan after the other."""
    here = borrowed(5)
    here.hear("owners", job("all", "j1", 6, min_pods="1"))
    here.hear("pods", *(pod(f"all-{at}", owner=("all", "j1")) for at in range(6)))
    here.step(after_s=600.0)
    evictions = [each for _ in range(2) for each in here.step() if isinstance(each, Evict)]
    assert len(evictions) == 2
    return here, evictions


def test_a_nomination_that_grows_keeps_its_earlier_places() -> None:
    here, evictions = grown()
    gang = here.backend.cluster_state.registry.named[evictions[0].needed_by]
    assert gang.nomination is not None
    assert [place.pod.index for place in gang.nomination.places] == [3, 4]
    assert len(gang.nomination.freed_by) == 2


def test_a_pod_that_starts_in_free_capacity_leaves_the_nomination_of_the_others() -> None:
    here, evictions = grown()
    here.hear("projects", project("team", gpus=6))
    here.hear("nodes", node("n9", gpus=1))
    (bind,) = here.step()
    assert (bind.name, bind.node) == ("all-5", "n9")
    assert [here.backend.check(evict) for evict in evictions] == ["", ""]


def test_each_eviction_of_a_burst_is_needed_when_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "AT_ONCE", 2)
    here = borrowed(8)
    refusals: list[str] = []
    submit = here.backend._submit

    def send(writes: Any) -> None:
        refusals.extend(here.backend.check(write) for write in writes if isinstance(write, Evict))
        submit(writes)

    monkeypatch.setattr(here.backend, "_submit", send)
    here.hear("owners", job("all", "j1", 8))
    here.hear("pods", *(pod(f"all-{at}", owner=("all", "j1")) for at in range(8)))
    here.step(after_s=600.0)
    assert refusals == [""] * 8


def test_capacity_that_another_scheduler_takes_first_is_given_up_for_other_capacity() -> None:
    here = borrowed(8)
    here.hear("owners", job("all", "j1", 2))
    here.hear("pods", *(pod(f"all-{at}", owner=("all", "j1")) for at in range(2)))
    evictions = [each for each in here.step(after_s=600.0) if isinstance(each, Evict)]
    gang = here.backend.cluster_state.registry.named[evictions[0].needed_by]
    assert gang.nomination is not None
    nodes = [place.node for place in gang.nomination.places]
    for evict in evictions:
        here.backend.take_outcome(evict, WriteDone())
        here.backend.deliver("pods")([ObjectRemoved(f"lender/{evict.name}", f"u-{evict.name}")])
    other = {"namespace": "free", "scheduler": "default-scheduler", "phase": "Running"}
    here.hear("pods", *(pod(f"other-{at}", on=name, **other) for at, name in enumerate(nodes)))
    assert here.step() == []
    assert gang.nomination is not None
    here.step(after_s=BLOCKED_S)
    assert here.control.wakes_s == here.now_s, "the next step follows without an event"
    again = [each for each in here.step() if isinstance(each, Evict)]
    assert len(again) == 2
    assert not {each.name for each in again} & {each.name for each in evictions}
