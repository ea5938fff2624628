"""Reports by node become reports by GPU model: each number is the sum of the nodes of the model."""

from weir.api.answers import UsageReport, UsageRow
from weir.api.history import HistoryReport, HistoryRow
from weir.store.reports.by_model import history_by_model, usage_by_model

MODELS = {"n1": "H100", "n2": "H100", "n3": "A100"}


def row(key: str, allocated_gpu_s: float, used_gpu_s: float | None = None) -> UsageRow:
    idle_gpu_s = None if used_gpu_s is None else allocated_gpu_s - used_gpu_s
    return UsageRow(
        key=key,
        allocated_gpu_s=allocated_gpu_s,
        used_gpu_s=used_gpu_s,
        idle_gpu_s=idle_gpu_s,
        over_quota_gpu_s=1.0,
        waiting_s=2.0,
        workloads=3,
        ended=2,
        preempted=1,
    )


def test_usage_of_nodes_is_added_up_by_model() -> None:
    rows = [row("n1", 10.0, 4.0), row("n2", 20.0), row("n3", 40.0)]
    by_model = usage_by_model(UsageReport(since_s=0, until_s=9, by="node", rows=rows), MODELS.__getitem__)
    assert by_model.by == "gpu_model"
    assert [(row.key, row.allocated_gpu_s, row.used_gpu_s, row.workloads) for row in by_model.rows] == [
        ("A100", 40.0, None, 3),
        ("H100", 30.0, 4.0, 6),
    ]


def test_history_of_nodes_is_added_up_by_model_and_keeps_its_total() -> None:
    costs = {"n1": 1.5, "n2": None, "n3": 3.0}
    rows = [HistoryRow(**dict(row(name, 10.0, 5.0)), evicted=2, cost=cost) for name, cost in costs.items()]
    total = HistoryRow(**dict(row("all", 30.0, 15.0)))
    report = HistoryReport(since_s=0, until_s=9, by="node", rows=rows, total=total, rules=[], points=[])
    by_model = history_by_model(report, MODELS.__getitem__)
    assert {row.key: (row.evicted, row.cost, row.idle_gpu_s) for row in by_model.rows} == {
        "H100": (4, 1.5, 10.0),
        "A100": (2, 3.0, 5.0),
    }
    assert by_model.total == total
