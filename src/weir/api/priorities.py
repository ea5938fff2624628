"""Priority classes of a pool."""

from weir.api.workload_list import Answer, Page


class PriorityRow(Answer):
    """A priority class; `preemptible` is the default of its workloads."""

    name: str
    priority: int
    preemptible: bool


class PriorityPage(Page):
    """Priority classes of the pool, lowest first."""

    items: list[PriorityRow]
