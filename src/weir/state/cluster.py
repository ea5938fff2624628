"""Cluster state: capacity columns, quota usage, jobs, and learned run times.

Only `weir.state.reduce` changes it; everyone else reads.
"""

import numpy as np
import numpy.typing as npt

from weir.model.nodes import Node, Topology
from weir.model.workloads import WHOLE_MILLI
from weir.state.budgets import Budget
from weir.state.capacity_columns import CapacityColumns
from weir.state.jobs import ClassKey, EquivalenceClass, Job, Pod
from weir.state.person_admission import PersonAdmission
from weir.state.quota_usage import QuotaUsage
from weir.state.request_mix import RequestMix
from weir.state.running_pods import RunningColumns
from weir.state.runtime_history import RuntimeHistory
from weir.state.shapes import GPU_ROW, RowIndex, ShapeTable, model_row_name
from weir.state.usage_history import UsageHistory

LOG_MAX = 1 << 16
"""Number of changes of nodes that the log keeps for its readers."""


class Cluster:
    """State that the engine decides from. Nodes are rows in the order in which they were first seen."""

    def __init__(self) -> None:
        self.now_s = 0.0  # the latest time of any event
        self.rows = RowIndex()
        self.marks = RowIndex(first=())  # those that pods bear or rules count pods by
        self.shapes = ShapeTable(self.rows, self.marks)
        self.nodes: list[Node | None] = []  # None: lost
        self.node_at: dict[str, int] = {}
        self.node_names: list[str] = []
        self.capacity: npt.NDArray[np.int64] = np.zeros((len(self.rows), 0), np.int64)
        self.free_capacity = CapacityColumns.empty(len(self.rows))  # free now and not nominated
        self.releasing = CapacityColumns.empty(len(self.rows))  # held by stopping pods
        self.releasing_on: dict[int, int] = {}  # stopping pods by node
        self.device_memory: list[int] = []
        self.weighted_nodes: dict[int, None] = {}  # nodes whose devices don't count as one GPU each
        self.outage_nodes: dict[int, None] = {}  # nodes with present or future outages
        self.topologies: dict[str, Topology] = {}
        self.ledger = QuotaUsage((), self.rows)
        self.jobs: dict[str, Job] = {}
        # Jobs that request device memory: their charge depends on the node
        self.by_memory: dict[str, Job] = {}
        self.unprotected: dict[str, Job] = {}  # idle jobs that any requester may evict
        self.pods_on: list[dict[Pod, None]] = []
        self.running: dict[int, dict[str, Job]] = {}  # jobs with running pods, by project
        self.running_pods = RunningColumns()
        self.nominated: dict[str, Job] = {}
        self.incomplete: dict[str, Job] = {}  # gangs that run below their minimum
        self.stopping: dict[str, Job] = {}  # jobs with stopping pods, and pods that are pending after that
        self.priorities: dict[int, dict[int, int]] = {}  # by project: preemptible running jobs by priority
        self.waiting: dict[ClassKey, EquivalenceClass] = {}
        self.waiting_of: dict[int, dict[EquivalenceClass, None]] = {}  # by project
        self.classes_made = 0
        self.saved: list[Job] = []  # jobs of the latest checkpoint time
        self.budgets: dict[str, Budget] = {}
        self.refused: dict[Pod, float] = {}  # running pods whose eviction was refused, with the time
        # Workloads that lost a nomination to a refused eviction, with the time
        self.withdrawn: dict[str, float] = {}
        self.usage = UsageHistory()
        self.admission = PersonAdmission()
        self.mix = RequestMix()
        self.runtimes = RuntimeHistory()
        self.static_version = 0  # changes with nodes, queues and topologies
        self.changes = 0  # number of events, without checkpoints
        self.changed_s = 0.0  # time of the last of these events
        self.log: list[int] = []  # nodes that changed, in order
        self.log_epoch = 0

    def changed(self, node: int) -> None:
        """Log a change of a node's capacity."""
        if len(self.log) >= LOG_MAX:
            self.log.clear()
            self.log_epoch += 1
        self.log.append(node)

    def total(self, row: int) -> int:
        """Return the capacity of all nodes for a resource, as quotas count it."""
        return self.totals()[row] if self.weighted_nodes else int(self.capacity[row].sum())

    def weighted_shapes(self) -> bool:
        """Return True if any request so far had devices that don't count as one GPU each."""
        return self.shapes.weighted

    def totals(self) -> list[int]:
        """Return the capacity of all nodes together by resource, as quotas count it."""
        totals: list[int] = self.capacity.sum(axis=1).tolist()
        for index in self.weighted_nodes:
            node = self.nodes[index]
            if node is None:
                continue
            own_milli = node.own_gpus * WHOLE_MILLI
            less = own_milli - own_milli * node.gpu_weight_milli // WHOLE_MILLI
            totals[GPU_ROW] -= less
            if node.gpu_model is not None:
                totals[self.rows.row_of(model_row_name(node.gpu_model))] -= less
        return totals
