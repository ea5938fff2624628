"""Work on nodes and GPUs that are drained or go out of service: stopped in time, or left to finish."""

from collections.abc import Sequence
from dataclasses import replace

from weir.control.port import Effect, EndWorkload, LifecycleRule, NodeDrained, PodExit, StopPod
from weir.model.nodes import Outage
from weir.model.policy import LifecyclePolicy
from weir.state.events import NodeSet

from .harness import GROUND, Scene, gang

RULES = LifecyclePolicy(stop_grace=30.0)
NODE = GROUND[0].node


def out_of_service(*outages: Outage) -> NodeSet:
    return NodeSet(replace(NODE, outages=outages))


def stopped(effects: Sequence[Effect]) -> list[str]:
    return [effect.pod.workload for effect in effects if isinstance(effect, StopPod)]


def wait(scene: Scene, until_s: float) -> list[str]:
    """Step whenever control asks for it; return the workloads told to stop."""
    pods: list[str] = []
    while (wakes_s := scene.control.wakes_s) is not None and wakes_s <= until_s:
        pods += stopped(scene.step(at_s=max(scene.now_s, wakes_s)))
    scene.now_s = until_s
    return pods


def test_work_gets_its_notice_so_that_its_grace_is_over_at_the_beginning() -> None:
    scene = Scene(gang("job"), rules=RULES)
    scene.starts("job", 2)
    scene.step(out_of_service(Outage(1000.0, 2000.0, sentence="maintenance (new disks)")))
    assert wait(scene, 969.0) == []
    assert scene.control.wakes_s == 970.0
    assert wait(scene, 970.0) == ["job", "job"]
    (note,) = [note for note in scene.notes if note.kind == LifecycleRule.DRAINED]
    assert note.sentence == "job is stopped: node has maintenance (new disks)."


def test_work_that_starts_after_the_announcement_gets_a_notice_too() -> None:
    scene = Scene(out_of_service(Outage(1000.0, 2000.0)), gang("job"), rules=RULES)
    scene.starts("job", 2)
    assert wait(scene, 970.0) == ["job", "job"]


def test_the_grace_of_the_work_itself_counts() -> None:
    scene = Scene(gang("job", grace_s=200.0), rules=RULES)
    scene.starts("job", 2)
    scene.step(out_of_service(Outage(1000.0, 2000.0)))
    assert wait(scene, 799.0) == []
    assert wait(scene, 800.0) == ["job", "job"]


def test_work_whose_longest_run_ends_before_is_left_alone_until_then() -> None:
    scene = Scene(gang("job", max_runtime_s=990.0), rules=RULES)
    starts = scene.starts("job", 2)
    scene.step(out_of_service(Outage(1000.0, 2000.0)))
    assert wait(scene, 989.0) == []
    assert wait(scene, 990.0) == ["job", "job"]
    effects = scene.step(*scene.exits(starts, PodExit.STOPPED))
    (end,) = [effect for effect in effects if isinstance(effect, EndWorkload)]
    assert end.cause is not None
    assert end.cause.rule is LifecycleRule.MAX_RUNTIME


def test_only_work_on_the_gpus_out_of_service_is_stopped() -> None:
    scene = Scene(gang("first", 1), gang("other", 2), rules=RULES)
    scene.starts("first", 1)  # on GPU 0
    scene.starts("other", 2)  # on GPUs 0 and 1: the harness places them there
    scene.step(out_of_service(Outage(1000.0, devices=(1,))))
    assert wait(scene, 1100.0) == ["other", "other"]


def test_work_may_be_left_to_finish() -> None:
    scene = Scene(gang("job"), rules=RULES)
    scene.starts("job", 2)
    scene.step(out_of_service(Outage(1000.0, keeps_running=True)))
    assert wait(scene, 5000.0) == []


def test_an_outage_that_is_over_leaves_its_node() -> None:
    scene = Scene(out_of_service(Outage(10.0, 20.0), Outage(30.0, 40.0)))
    scene.step()
    assert wait(scene, 20.0) == []
    (node,) = scene.control.cluster.nodes
    assert node is not None
    assert node.outages == (Outage(30.0, 40.0),)
    wait(scene, 40.0)
    (node,) = scene.control.cluster.nodes
    assert node is not None
    assert node.outages == ()
    assert scene.control.cluster.outage_nodes == {}
    assert scene.control.wakes_s is None


def test_an_outage_that_is_withdrawn_stops_nothing() -> None:
    scene = Scene(gang("job"), out_of_service(Outage(1000.0, 2000.0)), rules=RULES)
    scene.starts("job", 2)
    scene.step(NodeSet(NODE))
    assert wait(scene, 3000.0) == []


def test_an_outage_that_begins_at_once_stops_at_once() -> None:
    scene = Scene(gang("job"), rules=RULES)
    scene.starts("job", 2)
    assert stopped(scene.step(out_of_service(Outage(0.0, 2000.0)))) == ["job", "job"]


def test_a_drained_gpu_stops_its_own_work_alone() -> None:
    scene = Scene(gang("first", 1), gang("other", 2), rules=RULES)
    scene.starts("first", 1)
    scene.starts("other", 2)
    effects = scene.step(NodeDrained("node", 0.0, "drained by anna", devices=(1,)))
    assert stopped(effects) == ["other", "other"]
    assert scene.notes[-1].sentence == "other is stopped: GPU 1 of node is drained by anna."
