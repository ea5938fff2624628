"""Request shapes: requests of pods with names replaced by row numbers, once.

Equal requests share one shape, and with it all results of searches.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from weir.model.resources import CPU, GPU, GPU_MODEL_PREFIX, MEMORY, PODS
from weir.model.workloads import WHOLE_MILLI, PodAffinityRule, Request

GPU_ROW: Final = 0
CPU_ROW: Final = 1
MEMORY_ROW: Final = 2
PODS_ROW: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class RequestShape:
    """A request by numbers.

    `needs` are (row, amount) of the node's resources besides devices. `charges` are the charges to quotas
    besides devices: its needs, and assumed amounts.
    """

    id: int
    request: Request
    needs: tuple[tuple[int, int], ...]
    devices: int
    share_milli: int
    gpu_memory: int
    whole: bool
    constraint: int  # equal for shapes with the same feasible nodes, running pods aside
    marks: tuple[int, ...] = ()  # rows of its label sets
    pod_rules: tuple[tuple[PodAffinityRule, int], ...] = ()  # each with the row of its label set
    charges: tuple[tuple[int, int], ...] = ()
    plain: "RequestShape | None" = None  # the same shape without label sets and pod affinity, if it has any
    gpu_weight_milli: int = WHOLE_MILLI  # thousandths of a GPU that each device counts as in the ledger

    def share_on(self, device_memory: int) -> int:
        """Return the thousandths of each device that it uses on devices with this memory."""
        if not self.gpu_memory:
            return self.share_milli
        return max(1, self.gpu_memory * WHOLE_MILLI // device_memory) if device_memory > 0 else WHOLE_MILLI

    def memory_on(self, device_memory: int) -> int:
        """Return the bytes of each device that it uses on devices with this memory."""
        return self.gpu_memory or self.share_milli * device_memory // WHOLE_MILLI

    def charge_on(self, device_memory: int) -> int:
        """Return the charge in thousandths of GPUs on devices with this much memory."""
        milli = self.devices * min(WHOLE_MILLI, self.share_on(device_memory))
        if self.gpu_weight_milli == WHOLE_MILLI:
            return milli
        return max(1, milli * self.gpu_weight_milli // WHOLE_MILLI)

    def devices_milli(self, charge: int) -> int:
        """Return the thousandths of devices of a pod with this charge."""
        return charge if self.gpu_weight_milli == WHOLE_MILLI else self.devices * WHOLE_MILLI


class RowIndex:
    """Row numbers of resources and label sets. Rows are only ever added."""

    def __init__(self, first: Iterable[str] = (GPU, CPU, MEMORY, PODS)) -> None:
        self.names: list[str] = list(first)
        self._rows = {name: row for row, name in enumerate(self.names)}

    def row_of(self, name: str) -> int:
        """Return the row of a resource; add a new one."""
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self.names)
            self.names.append(name)
        return row

    def get(self, name: str) -> int | None:
        """Return the row of a resource, or None if it has none."""
        return self._rows.get(name)

    def see(self, names: Iterable[str]) -> None:
        """Add rows for these resources where they are missing."""
        for name in names:
            self.row_of(name)

    def amounts(self, by_name: Mapping[str, int], default: int) -> list[int]:
        """Convert a mapping by name to a list by row."""
        return [by_name.get(name, default) for name in self.names]

    def branch(self) -> "RowIndex":
        """Return a copy to which rows may be added."""
        return RowIndex(self.names)

    def __len__(self) -> int:
        return len(self.names)


class ShapeTable:
    """Table of the request shapes, each once."""

    def __init__(self, rows: RowIndex, marks: RowIndex) -> None:
        self._rows = rows
        self._marks = marks
        self._by_request: dict[Request, RequestShape] = {}
        self._constraints: dict[tuple[object, ...], int] = {}
        self.all: list[RequestShape] = []
        self.weighted = False  # True if devices of any shape don't count as one GPU each

    def shape_of(self, request: Request) -> RequestShape:
        """Return the shape of a request; add a new one."""
        shape = self._by_request.get(request)
        if shape is None:
            plain = None
            if request.marks or request.pod_rules:
                plain = self.shape_of(replace(request, marks=(), pod_rules=()))
            shape = self._by_request[request] = self._made(request, plain)
            self.all.append(shape)
            self.weighted = self.weighted or request.gpu_weight_milli != WHOLE_MILLI
        return shape

    def branch(self, rows: RowIndex, marks: RowIndex) -> "ShapeTable":
        """Return a copy over these rows to which shapes may be added."""
        table = ShapeTable(rows, marks)
        table._by_request, table._constraints = self._by_request.copy(), self._constraints.copy()
        table.all, table.weighted = self.all.copy(), self.weighted
        return table

    def _made(self, request: Request, plain: RequestShape | None) -> RequestShape:
        needs = [(CPU_ROW, request.cpu_milli), (MEMORY_ROW, request.memory), (PODS_ROW, 1)]
        needs += [(self._rows.row_of(name), amount) for name, amount in request.further]
        assumed = ((CPU_ROW, request.assumed_cpu_milli), (MEMORY_ROW, request.assumed_memory))
        charges = [*needs, *assumed]
        constraint = (
            request.devices,
            request.gpu_models if request.devices else (),
            request.node_selector,
            request.nodes,
            request.tolerations,
            request.rules,
            request.gpu_memory,
        )
        return RequestShape(
            id=len(self.all),
            request=request,
            needs=tuple((row, amount) for row, amount in needs if amount > 0),
            devices=request.devices,
            share_milli=0 if request.gpu_memory else request.share_milli,
            gpu_memory=request.gpu_memory,
            whole=request.is_whole and not request.gpu_memory,
            constraint=self._constraints.setdefault(constraint, len(self._constraints)),
            marks=tuple(self._marks.row_of(mark) for mark in dict.fromkeys(request.marks)),
            pod_rules=tuple((rule, self._marks.row_of(rule.mark)) for rule in request.pod_rules),
            charges=tuple((row, amount) for row, amount in charges if amount > 0),
            plain=plain,
            gpu_weight_milli=request.gpu_weight_milli,
        )


def model_row_name(model: str) -> str:
    """Return the resource that counts devices of a model."""
    return GPU_MODEL_PREFIX + model
