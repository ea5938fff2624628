"""Disruption budgets in the cluster state: allowances that shrink as pods are told to stop."""


class Budget:
    """A disruption budget: how many more of its pods may be told to stop."""

    __slots__ = ("allowed", "name")

    def __init__(self, name: str, allowed: int) -> None:
        self.name = name
        self.allowed = allowed
