"""Details of the decision on a workload: scores of nodes, and prices of victims."""

from weir.api.workload_list import Answer


class NodeScoreRow(Answer):
    """A node for the next pod of a workload. Preference is compared first, then fragmentation."""

    node: str
    free_gpus: float
    preference: int  # sum of affinity weights: higher is better
    fragmentation: float | None = None  # GPUs lost to usual requests: lower is better; None: not compared


class NodeRankingRow(Answer):
    """The best nodes for the next pod of a group, of the `fitting` ones with capacity."""

    group: str
    fitting: int
    nodes: list[NodeScoreRow]


class VictimRow(Answer):
    """A running workload that holds capacity of use. `protected` is empty if it may be evicted."""

    workload: str
    project: str
    gpus: float
    lost: float  # GPU-seconds of work since its checkpoint, and its restart
    price: float | None = None  # GPU-seconds to compare victims: `lost` less a credit for size
    rule: str | None = None  # rule that allows its eviction; None until others are evicted
    protected: str = ""


class DecisionAnswer(Answer):
    """The decision on a workload: `victims` names a few of all that are eligible or protected."""

    rankings: list[NodeRankingRow]
    eligible: int
    protected: int
    victims: list[VictimRow]
    again: bool = False  # True: no decision is due, so this is the decision if it were placed now
