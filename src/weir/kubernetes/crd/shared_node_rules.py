"""Numbers and delays by which Weir sets nodes aside for shares of GPUs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedNodeRules:
    """Rules for nodes that Weir sets aside for shares."""

    nodes_max: int = 0  # 0: only people set nodes aside
    wait_s: float = 60.0  # wait of pending shares before a node is set aside
    idle_s: float = 600.0  # time without shares before a node is given back
