"""Reasons say what a single node is short of in numbers, and count nodes where there are several."""

import pytest

from weir.backends.simulated.play import play
from weir.model.files import parse_scenario

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
        ("gpus: 2", "no room now: box has 1 device free, and a pod asks for 2"),
        ("gpus: 1, cpu: 4", "no room now: box has 2 cpu free, and a pod asks for 4"),
        ("gpus: 3", "no node can take a pod of group 0: 1 node refuses, by devices"),
        ("gpus: 1, count: 3", "the one node that matches can't hold 3 pods of group 0 even when empty"),
    ],
)
def test_one_node(asks: str, sentence: str) -> None:
    assert why(asks) == sentence


def test_several_nodes() -> None:
    assert why("gpus: 3", nodes="n[0-1]", first="n0").endswith("of 2 nodes 2 by devices")
