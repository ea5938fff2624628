"""Disruption budgets in the cluster state: allowances decrease with each eviction."""


class Budget:
    """A disruption budget, with the number of further evictions that it allows."""

    __slots__ = ("allowed", "name")

    def __init__(self, name: str, allowed: int) -> None:
        self.name = name
        self.allowed = allowed
