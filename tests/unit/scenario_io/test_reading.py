"""Omitted fields have their defaults, and written fields their meaning."""

import re
from pathlib import Path
from typing import Any

import pytest

from weir.model.expectations import differences
from weir.model.nodes import Node, Taint, Toleration, Topology
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import ReasonCode
from weir.model.scenario import Expect, Expectation, InvalidFile, Scenario
from weir.model.workloads import (
    NodeAffinityRule,
    NodeExpression,
    PodAffinityRule,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
    WorkloadType,
)
from weir.scenario_io.policies import named_policy, read_policy
from weir.scenario_io.reading import parse_scenario
from weir.scenario_io.schema import policy_schema, scenario_schema
from weir.scenario_io.writing import write_scenario
from weir.simulation.scenario_runner import play

DOCS = Path(__file__).parents[3] / "docs"
GIB = 1 << 30


def read(text: str) -> Scenario:
    return parse_scenario(text, "lab.yaml")


def test_the_least_that_can_be_written() -> None:
    scenario = read(
        "cluster: {nodes: [{name: a}]}\nprojects: [{name: p}]\nworkloads: [{name: w, project: p, pods: [{}]}]"
    )
    capacity = {"cpu": 64_000, "memory": 512 * GIB, "pods": 110}
    assert scenario.name == "lab"
    assert scenario.tick_s == 1.0
    assert scenario.nodes == (Node("a", 0, 16 * GIB, capacity, labels={"kubernetes.io/hostname": "a"}),)
    assert scenario.queues == (Queue("p", quota={"gpu": 0}),)
    assert scenario.workloads == (Workload("w", "p", (PodGroup("0", Request()),), 1, -60.0),)
    assert scenario.expect == Expect()


def test_sums_of_floats_are_the_amounts_that_they_mean() -> None:
    scenario = read(
        """
cluster: {nodes: [{name: a, gpus: 2, gpu_weight: 0.7999999999999999}]}
projects: [{name: p, quota: {gpu: 0.30000000000000004}, person_limits: {gpus: 0.30000000000000004}}]
workloads: [{name: w, project: p, pods: [{gpus: 0.30000000000000004, cpu: 0.7999999999999999}]}]
"""
    )
    (project,), (workload,) = scenario.queues, scenario.workloads
    assert (project.quota, project.person_limits.gpus_milli) == ({"gpu": 300}, 300)
    request = workload.groups[0].request
    assert (request.share_milli, request.cpu_milli) == (300, 800)
    assert scenario.nodes[0].gpu_weight_milli == 800


def test_quotas_of_memory_may_be_as_large_as_clusters() -> None:
    (project,) = read("cluster: {nodes: [{name: a}]}\nprojects: [{name: p, quota: {memory: 64Ti}}]").queues
    assert project.quota["memory"] == 64 << 40


def test_everything_that_can_be_written() -> None:
    scenario = read("""
name: all of it
tick: 2s
cluster:
  nodes:
    - name: a
      gpus: 4
      gpu_model: H100
      gpu_memory: 80Gi
      cpu: 1.5
      memory: 1Gi
      pods: 7
      labels: {zone: z, kubernetes.io/hostname: other}
      taints: [{key: k, value: v, effect: NoExecute}, {key: l}]
      resources: {rdma/hca: 8}
      links: [[0, 1], [2, 3]]
      foreign_devices: [2]
      foreign_marks: {web: 3}
  topologies: [{name: net, levels: [block, rack]}]
departments: [{name: d, parent: null, quota: {gpu: 6, cpu: unlimited}, limit: {gpu: 8}, weight: {gpu: 2}}]
projects: [{name: p, department: d, quota: {gpu: 0.5, gpu.H100: 1, memory: 1Gi}, priority: 7, created: -1h}]
workloads:
  - name: w
    project: p
    type: build
    priority: 60
    preemptible: false
    can_preempt: false
    submitted: -10m
    started: -5m
    min_pods: 3
    max_runtime: 2h
    checkpointed: -3m
    topology: {name: net, required: block, preferred: rack}
    pods:
      - name: worker
        count: 4
        min: 2
        gpus: 0.25
        devices: 2
        gpu_models: [H100]
        cpu: 100m
        memory: 32Mi
        resources: {rdma/hca: 1}
        node_selector: {zone: z}
        nodes: [a]
        tolerations: [{key: k, operator: Exists}, {operator: Exists, effect: NoSchedule}]
        node_affinity: [[{key: zone, operator: In, values: [y, z]}, {key: cores, operator: Gt, values: ["8"]}]]
        preferred_nodes: [{weight: 5, terms: [[{key: ssd, operator: Exists}]]}]
        marks: [web]
        pod_affinity: [{mark: cache, topology: zone}]
        pod_anti_affinity: [{mark: web, topology: host, weight: 9}]
        spread: [{mark: web, topology: zone, max_skew: 2, min_domains: 3}]
        order: 3
        placed: [null, {node: a, gpus: [3, 1]}]
      - {gpu_memory: 10Gi}
policy: {preset: throughput, reserve_fraction: 0.5}
expect:
  cycles: 3
  stable: 1
  max_evictions: 0
  workloads: {w: {running: 1, pending: 4, nodes: [a], reason: insufficient_capacity, evicted_by: w}}
  pods: {w/worker/1: {status: running, node: a, gpus: [1, 3]}}
""")
    assert (scenario.name, scenario.tick_s) == ("all of it", 2.0)
    assert scenario.nodes == (
        Node(
            "a",
            4,
            80 * GIB,
            {"cpu": 1500, "memory": GIB, "pods": 7, "rdma/hca": 8},
            "H100",
            {"zone": "z", "kubernetes.io/hostname": "other"},
            (Taint("k", "v", "NoExecute"), Taint("l")),
            ((0, 1), (2, 3)),
            (2,),
            {"web": 3},
        ),
    )
    assert scenario.topologies == (Topology("net", ("block", "rack")),)
    assert scenario.queues == (
        Queue("d", None, False, {"gpu": 6000}, {"gpu": 8000}, {"gpu": 2.0}),
        Queue("p", "d", True, {"gpu": 500, "gpu.H100": 1000, "memory": GIB}, priority=7, created_s=-3600.0),
    )
    worker = Request(
        devices=2,
        share_milli=250,
        cpu_milli=100,
        memory=32 << 20,
        further=(("rdma/hca", 1),),
        gpu_models=("H100",),
        node_selector=(("zone", "z"),),
        nodes=("a",),
        tolerations=(Toleration("k", "Exists"), Toleration("", "Exists", "", "NoSchedule")),
        rules=(
            NodeAffinityRule(
                ((NodeExpression("zone", "In", ("y", "z")), NodeExpression("cores", "Gt", ("8",))),)
            ),
            NodeAffinityRule(((NodeExpression("ssd", "Exists"),),), 5),
        ),
        marks=("web",),
        pod_rules=(
            PodAffinityRule("affinity", "cache", "zone"),
            PodAffinityRule("anti_affinity", "web", "host", 9),
            PodAffinityRule("spread", "web", "zone", 0, 2, 3),
        ),
    )
    [workload] = scenario.workloads
    assert workload == Workload(
        "w",
        "p",
        (PodGroup("worker", worker, 4, 2, 3), PodGroup("1", Request(1, 0, 10 * GIB))),
        3,
        -600.0,
        WorkloadType.BUILD,
        60,
        False,
        7200.0,
        TopologyRequest("net", "block", "rack"),
        can_preempt=False,
    )
    past = scenario.past["w"]
    assert (past.placed, past.started_s, past.checkpointed_s) == ({(0, 1): ("a", (3, 1))}, -300.0, -180.0)
    assert (scenario.policy.over_quota_order, scenario.policy.reserve_fraction) == ("predicted_runtime", 0.5)
    assert scenario.expect == Expect(
        3,
        1,
        0,
        {
            "w": Expectation(
                running=1, pending=4, nodes=("a",), reason=ReasonCode.INSUFFICIENT_CAPACITY, evicted_by="w"
            )
        },
        {"w/worker/1": Expectation("running", "a", gpus=(1, 3))},
    )
    assert read(write_scenario(scenario)) == scenario


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("a-[0-2]", ["a-0", "a-1", "a-2"]),
        ("a[08-10]", ["a08", "a09", "a10"]),
        ("r[0-1]n[0-1]x", ["r0n0x", "r0n1x", "r1n0x", "r1n1x"]),
    ],
)
def test_ranges_are_expanded_in_place(name: str, names: list[str]) -> None:
    scenario = read(f"cluster: {{nodes: [{{name: z}}, {{name: '{name}', gpus: 1}}, {{name: b}}]}}")
    assert [node.name for node in scenario.nodes] == ["z", *names, "b"]
    assert [node.labels["kubernetes.io/hostname"] for node in scenario.nodes] == ["z", *names, "b"]


@pytest.mark.parametrize(
    ("type_", "priority", "preemptible"),
    [("train", 50, True), ("build", 100, False), ("inference", 125, False)],
)
def test_a_type_sets_priority_and_preemptibility(type_: str, priority: int, preemptible: bool) -> None:
    [workload] = read(
        "cluster: {}\nprojects: [{name: p}]\n"
        f"workloads: [{{name: w, project: p, type: {type_}, pods: [{{}}]}}]"
    ).workloads
    assert (workload.priority, workload.preemptible) == (priority, preemptible)


def test_times_follow_the_order_of_the_file() -> None:
    scenario = read("""
cluster: {nodes: [{name: a}]}
departments: [{name: d}, {name: e}]
projects: [{name: p}, {name: q, created: -5m}, {name: r}]
workloads:
  - {name: u, project: p, pods: [{placed: [{node: a}]}]}
  - {name: v, project: p, pods: [{}]}
  - {name: w, project: p, pods: [{}]}
""")
    assert [queue.created_s for queue in scenario.queues] == [0, 60, 120, -300, 240]
    assert [workload.submitted_s for workload in scenario.workloads] == [-180, -120, -60]
    assert {name: past.started_s for name, past in scenario.past.items()} == {"u": -180.0}


def test_a_department_has_the_gpus_of_its_children_unless_it_says_otherwise() -> None:
    scenario = read("""
cluster: {}
departments:
  - {name: inner, parent: outer}
  - {name: outer}
  - {name: stated, quota: {gpu: 1}, parent: outer}
  - {name: open}
  - {name: empty}
projects:
  - {name: a, department: inner, quota: {gpu: 1.5}}
  - {name: b, department: inner, quota: {cpu: 4}}
  - {name: c, department: outer, quota: {gpu: 2}}
  - {name: d, department: stated, quota: {gpu: 9}}
  - {name: e, department: open, quota: {gpu: unlimited}}
""")
    quotas = {queue.name: queue.quota.get("gpu") for queue in scenario.queues}
    assert quotas == {
        "outer": 4500, "stated": 1000, "open": None, "empty": 0, "inner": 1500,
        "a": 1500, "b": 0, "c": 2000, "d": 9000, "e": None,
    }  # fmt: skip
    names = [queue.name for queue in scenario.queues]
    assert all(
        queue.parent is None or names.index(queue.parent) < position
        for position, queue in enumerate(scenario.queues)
    )


def test_devices_that_are_not_written_are_the_lowest_free_ones() -> None:
    scenario = read("""
cluster: {nodes: [{name: a, gpus: 5}]}
projects: [{name: p}]
workloads:
  - {name: u, project: p, pods: [{gpus: 2, placed: [{node: a}]}]}
  - {name: v, project: p, pods: [{gpus: 0.5, count: 2, placed: [{node: a, gpus: [1]}, {node: a, gpus: [1]}]}]}
  - {name: w, project: p, pods: [{gpus: 1, count: 2, placed: [null, {node: a}]}]}
""")
    placed = {
        (name, index): devices
        for name, past in scenario.past.items()
        for (_, index), (_, devices) in past.placed.items()
    }
    assert placed == {
        ("u", 0): (0, 2),
        ("v", 0): (1,),
        ("v", 1): (1,),
        ("w", 1): (3,),
    }


def test_words_mean_what_people_mean() -> None:
    scenario = read(
        "cluster: {nodes: [{name: no, labels: {on: off, time: 12:30}, gpus: 010}]}\nname: 2026-01-01"
    )
    assert scenario.name == "2026-01-01"
    assert scenario.nodes[0].name == "no"
    assert scenario.nodes[0].gpus == 10
    assert scenario.nodes[0].labels["time"] == "12:30"


def test_a_policy_goes_over_its_preset(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("preset: throughput\nusage: {k: 2}\nmin_runtime: {train: 5m}\n")
    policy = read_policy(file)
    assert (policy.over_quota_order, policy.usage.k, policy.min_runtime.train) == (
        "predicted_runtime",
        2.0,
        300.0,
    )
    file.write_text("")
    assert read_policy(file) == Policy(preset="balanced")


def test_many_nodes_and_pods_are_read() -> None:
    pods = ", ".join(f"{{node: n-{index // 8}, gpus: [{index % 8}]}}" for index in range(8000))
    scenario = read(
        "cluster: {nodes: [{name: 'n-[0-999]', gpus: 8}]}\nprojects: [{name: p}]\n"
        f"workloads: [{{name: w, project: p, pods: [{{count: 8000, gpus: 1, placed: [{pods}]}}]}}]"
    )
    assert len(scenario.nodes) == 1000
    assert len(scenario.past["w"].placed) == 8000


def test_the_example_of_the_manual_does_what_the_manual_says() -> None:
    example, *_ = re.findall(r"```yaml\n(.*?)```", (DOCS / "reference/scenarios.md").read_text(), re.DOTALL)
    scenario = read(example)
    played = play(scenario, scenario.expect.cycles, scenario.expect.stable)
    assert differences(scenario.expect, played) == []


@pytest.mark.parametrize("schema", [scenario_schema(), policy_schema()], ids=["scenario", "policy"])
def test_schemas_refuse_unknown_keys_and_know_every_one(schema: dict[str, Any]) -> None:
    assert schema["additionalProperties"] is False
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert all("properties" in definition or "enum" in definition for definition in schema["$defs"].values())


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("fiar", "fiar: is no preset and no file; did you mean fair?"),
        ("strict", "strict: is no preset and no file; write one of balanced, throughput, fair"),
    ],
)
def test_name_of_neither_a_preset_nor_a_file_is_answered_with_presets(name: str, answer: str) -> None:
    with pytest.raises(InvalidFile) as refused:
        named_policy(name)
    assert [str(mistake) for mistake in refused.value.mistakes] == [answer]


def test_directories_leave_the_names_of_presets_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of a simulation may be in a directory with the name of a preset; a directory may be unreadable."""
    (tmp_path / "fair").mkdir()
    monkeypatch.chdir(tmp_path)
    assert named_policy("fair").preset == "fair"

    def stat(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", stat)
    assert named_policy("throughput").preset == "throughput"
    with pytest.raises(InvalidFile):
        named_policy("fiar")
