"""Memory of shares that nodes report: whose pods it counts for, what people are told, and who is evicted."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod, project

from weir.engine.cache import EngineCache
from weir.engine.plan import Plan
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import WorkloadObject, WorkloadStatus
from weir.kubernetes.crd.scheduler_settings import ShareMemoryRules
from weir.kubernetes.process.control.share_memory_relief import ShareMemoryController
from weir.kubernetes.process.server.served_pods import shares_of
from weir.kubernetes.process.usage.share_memory_watch import EVERY_S, ShareMemoryWatch
from weir.kubernetes.state.pods.share_memory import SLACK, NodeMemory
from weir.kubernetes.translate.gpu_sharing import GPU_MEMORY_LIMITS
from weir.kubernetes.usage.node_reports import STALE_S
from weir.kubernetes.writes.statuses.share_memory import memory_conditions, memory_isolation
from weir.model.policy import Policy
from weir.model.reasons import EvictionRule

GIB = 1 << 30
SHARE = 8 * GIB


def share(name: str, on: str, devices: str = "0", *, limit: bool = True, **more: Any) -> Any:
    made = pod(name, gpus=0, on=on, devices=devices, start=1, phase="Running", **more)
    made.metadata.annotations |= {"weir.dev/gpu-fraction": "0.5"}
    if limit:
        made.metadata.annotations |= {
            "weir.dev/gpu-memory-limit": str(SHARE),
            "weir.dev/share-variables": "true",
        }
    return made


class Site:
    """Two nodes for shares; pods a and b share device 0 of the first, c is on the second."""

    def __init__(self, **labels: str) -> None:
        self.here = WatchProgress()
        self.here.see("projects", project("team", gpus=8))
        self.here.see("nodes", *(node(name, shared=True, labels=labels) for name in ("n1", "n2")))
        self.here.see("pods", share("a", "n1"), share("b", "n1"), share("c", "n2"))
        self.here.step()
        self.state = self.here.cluster_state
        self.state.registry.changed.clear()

    def report(self, node_name: str, *, watched: tuple[int, ...] = (0, 1), **gib: float) -> None:
        used = {(f"u-{name}", 0): int(each * GIB) for name, each in gib.items()}
        self.take(node_name, NodeMemory(frozenset(watched), used, self.here.now_s))

    def take(self, node_name: str, memory: NodeMemory | None) -> None:
        change: Any = ObjectRemoved(node_name, "") if memory is None else ObjectSet(node_name, memory)
        self.state.see("nodememory", [change], self.here.now_s)

    def isolation(self, name: str) -> Any:
        gang = self.state.registry.named[f"team/pod-{name}"]
        holding = [each for each in gang.pods() if each.holds]
        return memory_isolation(gang, holding, self.state).get("gpuMemoryIsolation", "unchanged")

    def changed(self) -> set[str]:
        found = {gang.name.removeprefix("team/pod-") for gang in self.state.registry.changed}
        self.state.registry.changed.clear()
        return found

    def excesses(self) -> dict[str, float]:
        return {each.pod.removeprefix("team/"): each.used / GIB for each in self.state.share_memory.all()}


def test_a_share_is_cooperative_while_an_agent_watches_its_device() -> None:
    site = Site()
    assert [site.isolation(name) for name in "abc"] == ["none"] * 3
    site.report("n1", a=4)
    assert [site.isolation(name) for name in "abc"] == ["cooperative", "cooperative", "none"]
    assert site.changed() == {"a", "b"}
    site.report("n1", a=5)
    assert site.changed() == set(), "nothing of it is for people"
    site.report("n1", watched=(1,))
    assert site.isolation("a") == "none"
    site.report("n1")
    site.take("n1", None)
    assert site.isolation("a") == "none"


def test_a_share_is_enforced_while_an_agent_says_that_the_driver_limits_it() -> None:
    site = Site()
    limited = NodeMemory(frozenset(), {}, limited=frozenset({"u-a", "u-c"}))
    site.take("n1", limited)
    assert [site.isolation(name) for name in "abc"] == ["enforced", "none", "none"], "c is on another node"
    assert site.changed() == {"a", "b"}
    site.take("n1", limited)
    assert site.changed() == set(), "nothing of it is new"
    site.take("n1", None)
    assert site.isolation("a") == "none"


def test_a_share_that_exceeds_the_limit_of_the_driver_isnt_enforced() -> None:
    site = Site()
    used = {("u-a", 0): 2 * SHARE}
    site.take("n1", NodeMemory(frozenset({0}), used, limited=frozenset({"u-a", "u-b"})))
    assert (site.isolation("a"), site.isolation("b")) == ("cooperative", "enforced")


def test_a_pod_that_doesnt_read_its_devices_isnt_enforced_by_a_limit_on_those() -> None:
    site = Site()
    bare = share("bare", "n1")
    del bare.metadata.annotations["weir.dev/share-variables"]
    site.here.see("pods", bare)
    site.here.step()
    site.take("n1", NodeMemory(frozenset(), {}, limited=frozenset({"u-bare"})))
    assert site.isolation("bare") == "none"


def test_an_agent_gets_the_shares_of_its_own_node() -> None:
    site = Site()
    site.here.see("pods", share("unknown", "n1", limit=False), pod("whole", gpus=1, on="n2", start=1))
    site.here.step()

    backend = KubernetesBackend(site.state, lambda _: None, lambda: None, lambda: site.here.now_s)

    def stated(name: str) -> list[tuple[str, tuple[int, ...], int]]:
        found = shares_of(backend, name)
        assert found is not None
        return sorted((each.uid, each.gpus, each.memory) for each in found.shares)

    assert stated("n1") == [("u-a", (0,), SHARE), ("u-b", (0,), SHARE)]
    assert stated("n2") == [("u-c", (0,), SHARE)]
    assert shares_of(backend, "elsewhere") is None, "it may not have been read yet"


def test_a_share_of_unknown_bytes_is_not_cooperative() -> None:
    site = Site()
    site.here.see("pods", share("bare", "n1", "1", limit=False))
    site.here.step()
    site.report("n1", bare=70)
    assert (site.isolation("bare"), site.isolation("a")) == ("none", "cooperative")
    assert site.excesses() == {}


def test_a_share_that_exceeds_its_limit_is_not_enforced_whatever_the_label_says() -> None:
    site = Site(**{GPU_MEMORY_LIMITS: "true"})
    assert site.isolation("a") == "enforced"
    site.report("n1", a=8, b=8)
    assert site.isolation("a") == "enforced"
    site.report("n1", a=20, b=8)
    assert (site.isolation("a"), site.isolation("b")) == ("cooperative", "enforced")


def test_a_pod_beyond_its_share_is_named_with_its_highest_use_until_it_keeps_to_it() -> None:
    site = Site()
    site.report("n1", a=(SHARE + SLACK) / GIB)
    assert site.excesses() == {}
    site.report("n1", a=12.25, b=8)
    site.report("n1", a=10)
    assert site.excesses() == {"a": 12.25}
    (condition,) = memory_conditions(site.state.share_memory.all())
    assert condition["type"] == "GPUMemoryExceeded"
    assert condition["message"] == ("Pod a uses 12.2 GiB of GPU 0 of node n1, and its share is 8.0 GiB.")
    site.changed()
    site.report("n1", a=8)
    assert site.excesses() == {}
    assert site.changed() == {"a", "b"}


def test_a_pod_that_uses_a_device_that_it_wasnt_given_is_named() -> None:
    site = Site()
    site.take("n1", NodeMemory(frozenset((0, 1)), {("u-a", 1): GIB}))
    (excess,) = site.state.share_memory.all()
    assert (excess.pod, excess.device, excess.limit, excess.endangers) == ("team/a", 1, 0, False)


def test_an_agent_cant_speak_of_pods_of_other_nodes() -> None:
    site = Site()
    site.report("n2", a=70, b=70, unknown=70)
    assert site.excesses() == {}
    site.report("n9", a=70)
    assert site.excesses() == {}


def test_what_was_written_stays_until_each_agent_could_report_to_a_new_leader() -> None:
    site = Site()
    for name in "abc":
        site.state.registry.objects[f"team/pod-{name}"] = WorkloadObject(
            Metadata(name),
            status=WorkloadStatus(
                gpu_memory_isolation={"a": "cooperative", "b": "enforced"}.get(name, "none")
            ),
        )
    assert [site.isolation(name) for name in "abc"] == ["unchanged", "unchanged", "none"]
    site.take("", None)
    assert [site.isolation(name) for name in "abc"] == ["none"] * 3
    assert site.changed() == {"a", "b", "c"}


class Controlled(Site):
    """A site whose pods may be evicted."""

    def __init__(self, rules: ShareMemoryRules) -> None:
        super().__init__()
        self.backend = KubernetesBackend(self.state, lambda _: None, lambda: None, lambda: self.here.now_s)
        self.controller = ShareMemoryController(self.backend, lambda *_: Plan(), lambda: False)
        self.controller.rules = rules

    def decide(self, at_s: float) -> Plan:
        cluster = self.here.control.cluster
        return self.controller.decide(cluster, Policy(), at_s, EngineCache())

    def evicted(self, at_s: float) -> set[str]:
        plan = self.decide(at_s)
        assert {each.cause.rule for each in plan.evictions} <= {EvictionRule.MEMORY_EXCEEDED}
        return {each.pod.workload.removeprefix("team/") for each in plan.evictions}


def test_a_pod_beyond_its_share_is_evicted_after_the_grace_to_protect_its_neighbour() -> None:
    site = Controlled(ShareMemoryRules(on_excess="evict", grace=60.0))
    assert not site.controller.is_needed()
    site.report("n1", a=12, b=8)
    site.report("n2", c=20)
    assert site.controller.is_needed()
    site.here.now_s += 59.0
    site.report("n1", a=11, b=8)
    site.report("n2", c=20)
    assert site.evicted(site.here.now_s) == set()
    site.here.now_s += 1.0
    site.report("n1", a=11, b=8)
    site.report("n2", c=20)
    assert site.evicted(site.here.now_s) == {"pod-a"}, "c is alone on its device"
    site.report("n1", a=8, b=8)
    assert site.evicted(site.here.now_s) == set()


def test_no_clock_and_no_silent_agent_makes_one_report_an_eviction() -> None:
    site = Controlled(ShareMemoryRules(on_excess="evict", grace=60.0))
    site.report("n1", a=12, b=8)
    began_s = site.here.now_s
    assert site.evicted(began_s + 60.0) == set(), "the agent hasn't said since that it still is so"
    assert site.evicted(began_s + 1e6) == set(), "the clock jumped"
    site.here.now_s += 90.0
    site.report("n1", a=8, b=8)
    site.here.now_s += 90.0
    site.report("n1", a=12, b=8)
    assert site.evicted(site.here.now_s) == set(), "the grace begins again"


def test_by_default_a_pod_beyond_its_share_is_named_and_stays() -> None:
    site = Controlled(ShareMemoryRules())
    site.report("n1", a=12)
    assert site.evicted(1e9) == set()


def test_a_gang_that_needs_the_pod_stops_whole() -> None:
    site = Controlled(ShareMemoryRules(on_excess="evict", grace=0.0))
    owner = job("gang", "j-1", pods=2)
    site.here.see("owners", owner)
    site.here.see("pods", *(share(f"g{at}", f"n{at}", "0", owner=("gang", "j-1")) for at in (1, 2)))
    site.here.step()
    site.report("n1", g1=12)
    assert len(site.decide(site.here.now_s).evictions) == 2
    site.report("n1", watched=(0,))
    site.here.gone("pods", "team/g1", "u-g1")
    assert site.decide(site.here.now_s).evictions == []


def test_reports_are_handed_over_once_and_the_end_of_the_wait_for_agents_too() -> None:
    now_s, memories, heard = [0.0], {"n1": NodeMemory(frozenset((0,)), {})}, []
    watch = ShareMemoryWatch(heard.extend, lambda: memories, lambda: now_s[0])
    watch.look()
    watch.look()
    assert heard == [ObjectSet("n1", memories["n1"])]
    memories.clear()
    now_s[0] = STALE_S + EVERY_S
    watch.look()
    watch.look()
    assert heard[1:] == [ObjectRemoved("n1", ""), ObjectRemoved("", "")]


@pytest.mark.parametrize("name", ["a", "c"])
def test_a_pod_that_is_made_again_under_its_name_begins_with_nothing(name: str) -> None:
    site = Site()
    place = "n1" if name == "a" else "n2"
    site.report(place, **{name: 20})
    assert site.excesses().keys() == {name}
    site.here.gone("pods", f"team/{name}", f"u-{name}")
    site.here.see("pods", share(name, place, uid="u-next"))
    site.here.step()
    site.report(place, **{name: 20})
    assert site.excesses() == {}


def test_a_pod_that_replaces_another_is_named_for_its_own_use_alone() -> None:
    site = Site()
    site.report("n1", a=20)
    assert len(site.state.share_memory.take_fresh()) == 1
    site.here.gone("pods", "team/a", "u-a")
    site.here.see("pods", share("a", "n1", uid="u-next"))
    site.here.step()
    tracked = site.state.pods.by_key["team/a"]
    assert site.state.share_memory.excesses_of([tracked]) == [], "the last report was about the pod before"
    site.take("n1", NodeMemory(frozenset((0, 1)), {("u-next", 0): 20 * GIB}))
    assert [each.uid for each in site.state.share_memory.take_fresh()] == ["u-next"]
    assert len(site.state.share_memory.excesses_of([tracked])) == 1
