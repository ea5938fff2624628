"""Reasons say what a single node is short of in numbers, and count nodes where there are several."""

import pytest

from weir.scenario_io.reading import parse_scenario
from weir.simulation.scenario_runner import play

WORLD = """
cluster: {{nodes: [{{name: "{nodes}", gpus: 2, cpu: 8, memory: 16Gi, gpu_memory: 16Gi}}]}}
projects: [{{name: a, quota: {{gpu: 0}}}}]
workloads:
- {{name: holds, project: a, pods: [{{gpus: 1, cpu: 6, placed: [{{node: {first}}}]}}]}}
- {{name: waits, project: a, pods: [{{{asks}}}]}}
"""


def why(asks: str, *, nodes: str = "box", first: str = "box") -> str:
    scenario = parse_scenario(WORLD.format(asks=asks, nodes=nodes, first=first), "world")
    return play(scenario, 1).pods["waits/0/0"].reason or ""


@pytest.mark.parametrize(
    ("asks", "sentence"),
    [
        (
            "gpus: 2",
            (
                "insufficient capacity: box has 1 GPU free, and a pod asks for 2; "
                "a would hold 3 of a quota of 0 GPUs, so it may only use free capacity"
            ),
        ),
        (
            "gpus: 1, cpu: 4",
            (
                "insufficient capacity: box has 2 CPUs free, and a pod asks for 4; "
                "a would hold 2 of a quota of 0 GPUs, so it may only use free capacity"
            ),
        ),
        ("gpus: 3", "a pod asks for 3 GPUs; the largest node offers 2"),
        ("gpus: 1, memory: 100Gi", "a pod asks for 100Gi of memory; the largest node offers 16Gi"),
        ("gpus: 1, cpu: 9", "a pod asks for 9 CPUs; the largest node offers 8"),
        ("gpu_memory: 40Gi", "it asks for 40Gi of GPU memory; the largest GPU has 16Gi"),
        (
            "gpus: 1, count: 3",
            "it needs 3 pods at once, more than 1 matching node can take even when idle",
        ),
    ],
)
def test_one_node(asks: str, sentence: str) -> None:
    assert why(asks) == sentence


def test_several_nodes() -> None:
    assert why("gpus: 3", nodes="n[0-1]", first="n0") == "a pod asks for 3 GPUs; the largest node offers 2"
    several = why("gpus: 2, count: 2", nodes="n[0-1]", first="n0")
    assert several == (
        "only 1 of 2 pods fit now: n0 has 1 GPU free, and a pod asks for 2; "
        "a would hold 5 of a quota of 0 GPUs, so it may only use free capacity"
    )


def test_each_cause_counts_its_nodes() -> None:
    scenario = parse_scenario(
        """
cluster:
  nodes:
  - {name: "small[0-1]", gpus: 2, cpu: 8, memory: 16Gi}
  - {name: large, gpus: 8, cpu: 8, memory: 16Gi, labels: {pool: b}}
  - {name: "none[0-2]", cpu: 8, memory: 16Gi}
projects: [{name: a, quota: {gpu: 0}}]
workloads: [{name: waits, project: a, pods: [{gpus: 4, memory: 32Gi}]}]
""",
        "world",
    )
    assert play(scenario, 1).pods["waits/0/0"].reason == (
        "0 of 6 nodes fit a pod of it: 3 are without a GPU, 2 are too small (4 GPUs), "
        "1 is too small (32Gi of memory)"
    )


HELD_MEMORY = """
cluster: {{nodes: [{{name: box, gpus: 8, cpu: 32, memory: 64Gi}}]}}
projects: [{{name: vision, quota: {{gpu: 4}}}}, {{name: speech, quota: {{gpu: 4}}}}]
workloads:
- {{name: serve, project: speech, type: inference, pods: [{{gpus: 1, {holds}, placed: [{{node: box}}]}}]}}
- {{name: waits, project: vision, pods: [{{gpus: 1, {asks}}}]}}
"""


@pytest.mark.parametrize(
    ("holds", "asks", "sentence"),
    [
        (
            "memory: 1Gi",
            "memory: 64Gi",
            (
                "box has 63Gi of memory free, and a pod asks for 64Gi; "
                "no eligible victims: 1Gi of memory held by non-preemptible work of speech"
            ),
        ),
        (
            "cpu: 2",
            "cpu: 32",
            (
                "box has 30 CPUs free, and a pod asks for 32; "
                "no eligible victims: 2 CPUs held by non-preemptible work of speech"
            ),
        ),
    ],
)
def test_the_reason_names_the_resource_that_is_short(holds: str, asks: str, sentence: str) -> None:
    scenario = parse_scenario(HELD_MEMORY.format(holds=holds, asks=asks), "world")
    assert play(scenario, 1).pods["waits/0/0"].reason == sentence


def test_a_budget_that_allows_too_few_evictions_is_named() -> None:
    scenario = parse_scenario(
        """
cluster: {nodes: [{name: node0, gpus: 4}]}
projects: [{name: borrows}, {name: owns, quota: {gpu: 4}}]
budgets: [{name: borrows/half, allowed: 1}]
workloads:
- {name: a, project: borrows, pods: [{gpus: 1, budgets: [borrows/half], placed: [{node: node0}]}]}
- {name: b, project: borrows, pods: [{gpus: 1, budgets: [borrows/half], placed: [{node: node0}]}]}
- {name: c, project: borrows, pods: [{gpus: 2, placed: [{node: node0}]}]}
- {name: waits, project: owns, pods: [{gpus: 4}]}
""",
        "world",
    )
    result = play(scenario, 1)
    assert result.pods["waits/0/0"].reason == (
        "node0 has 0 GPUs free, and a pod asks for 4; the eligible victims (3 GPUs) don't free enough; "
        "1 GPU is held by workloads that PodDisruptionBudget borrows/half protects"
    )


def test_a_budget_is_named_before_larger_holders() -> None:
    scenario = parse_scenario(
        """
cluster: {nodes: [{name: "n[0-5]", gpus: 4}]}
projects:
- {name: borrows}
- {name: owns, quota: {gpu: 4}}
- {name: p1, quota: {gpu: 4}}
- {name: p2, quota: {gpu: 4}}
- {name: p3, quota: {gpu: 4}}
- {name: p4, quota: {gpu: 4}}
- {name: p5, quota: {gpu: 4}}
budgets: [{name: borrows/never}]
workloads:
- {name: a, project: borrows, pods: [{gpus: 1, budgets: [borrows/never], placed: [{node: n0}]}]}
- {name: b, project: owns, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: b1, project: p1, pods: [{gpus: 4, placed: [{node: n1}]}]}
- {name: b2, project: p2, pods: [{gpus: 4, placed: [{node: n2}]}]}
- {name: b3, project: p3, pods: [{gpus: 4, placed: [{node: n3}]}]}
- {name: b4, project: p4, pods: [{gpus: 4, placed: [{node: n4}]}]}
- {name: b5, project: p5, pods: [{gpus: 4, placed: [{node: n5}]}]}
- {name: waits, project: owns, pods: [{gpus: 3}]}
""",
        "world",
    )
    reason = play(scenario, 1).pods["waits/0/0"].reason or ""
    _, _, holders = reason.partition("no eligible victims: ")
    assert holders.startswith("1 GPU is held by workloads that PodDisruptionBudget borrows/never protects; ")
    assert holders.count("held by") == 4


TWO_MODELS = """
cluster:
  nodes:
  - {{name: "a[0-1]", gpus: 4, gpu_model: A100}}
  - {{name: "h[0-1]", gpus: 4, gpu_model: H100, {taint}}}
projects: [{{name: vision, quota: {{gpu: 6}}}}, {{name: speech, quota: {{gpu: 10}}}}]
workloads:
- {{name: serve, project: speech, type: inference, pods: [{{gpus: 3, {asks}, placed: [{{node: h0}}]}}]}}
- {{name: train, project: speech, pods: [{{gpus: 4, placed: [{{node: a0}}]}}]}}
- {{name: fixed, project: speech, type: inference, pods: [{{gpus: 3, placed: [{{node: a1}}]}}]}}
- {{name: own, project: vision, pods: [{{gpus: 2, {asks}, placed: [{{node: h1}}]}}]}}
- {{name: waits, project: vision, pods: [{{gpus: 4, {asks}}}]}}
"""


@pytest.mark.parametrize(
    ("taint", "asks"),
    [
        ("labels: {pool: fast}", "gpu_models: [H100]"),
        ("labels: {pool: fast}", "node_selector: {pool: fast}"),
    ],
)
def test_only_nodes_that_the_request_may_use_count_for_its_holders(taint: str, asks: str) -> None:
    scenario = parse_scenario(TWO_MODELS.format(taint=taint, asks=asks), "world")
    reason = play(scenario, 1).pods["waits/0/0"].reason or ""
    _, _, holders = reason.partition("no eligible victims: ")
    assert holders == (
        "3 GPUs are held by non-preemptible work of speech; "
        "2 GPUs are held by its own project at no lower priority"
    )


def test_holders_on_all_nodes_count_where_the_request_may_use_all() -> None:
    scenario = parse_scenario(TWO_MODELS.format(taint="labels: {pool: fast}", asks="memory: 0"), "world")
    reason = play(scenario, 1).pods["waits/0/0"].reason or ""
    assert "6 GPUs are held by non-preemptible work of speech" in reason
    assert "4 GPUs are held by speech, which is not over its share" in reason
