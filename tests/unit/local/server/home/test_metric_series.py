"""Series of what workloads report and use."""

import math
import sys
from pathlib import Path

from tests.unit.local.server.in_process_server import Standing

from weir.control.metric_series import NAMES_MAX, POINTS_MAX, MetricSeries
from weir.local.server.home.series_store import SeriesStore
from weir.local.server.utilization import UtilizationTask
from weir.local.usage.gpu_sampling import UtilizationSampler

REPORTS = """
import weir, time
for step in range(1, 6):
    weir.report(step=step, loss=1.0 / step, **{"<b>top-1</b>": step / 10})
    time.sleep(0.15)
time.sleep(3600)
"""


def test_long_series_is_bounded_and_keeps_its_shape() -> None:
    series = MetricSeries()
    count = 20 * POINTS_MAX
    for index in range(count):
        series.add(float(index), index / count)
    assert POINTS_MAX // 4 < len(series.points) <= POINTS_MAX
    times = [at_s for at_s, _ in series.points]
    assert times == sorted(set(times))
    assert times[0] == 0.0
    assert times[-1] > 0.97 * count
    assert all(abs(value - at_s / count) < 0.02 for at_s, value in series.points)


def test_values_that_are_old_or_no_numbers_are_left_out() -> None:
    series = MetricSeries()
    for at_s, value in ((1.0, 2.0), (1.0, 3.0), (0.5, 4.0), (2.0, math.nan), (3.0, math.inf), (4.0, 5.0)):
        series.add(at_s, value)
    assert series.points == [(1.0, 2.0), (4.0, 5.0)]


def test_series_survive_the_server_and_bad_files_are_passed_over(tmp_path: Path) -> None:
    store = SeriesStore(tmp_path)
    store.add(7, 1.0, {"reported.loss": 0.5})
    store.add(7, 2.0, {f"reported.{index}": 1.0 for index in range(3 * NAMES_MAX)})
    store.flush((), now=True)
    later = SeriesStore(tmp_path)
    assert later.series_of(7)["reported.loss"] == ((1.0, 0.5),)
    assert len(later.series_of(7)) == NAMES_MAX
    later.add(7, 3.0, {"reported.loss": 0.25})
    assert later.series_of(7)["reported.loss"] == ((1.0, 0.5), (3.0, 0.25))
    (tmp_path / "series" / "8.json").write_text("[")
    (tmp_path / "series" / "9.json").symlink_to(tmp_path / "series" / "7.json")
    assert later.series_of(8) == later.series_of(9) == {}
    later.forget(7)
    assert SeriesStore(tmp_path).series_of(7) == {}


async def test_curves_are_of_what_the_job_reported_and_used(stands: Standing) -> None:
    await stands.submit(sys.executable, "-c", REPORTS, name="reports")
    await stands.until("reports", "running")
    backend = stands.pool.backend
    uses = UtilizationTask(
        stands.pool, UtilizationSampler(backend.node.machine, backend.pods), lambda: True, lambda _: None
    )

    def has_all(answer: dict) -> bool:
        uses.look()
        points = {row["name"]: len(row["points"]) for row in answer["series"]}
        return points.get("loss", 0) >= 2 and points.get("cpu", 0) >= 1

    answer = await stands.until_true(has_all, "workloads/reports/series")
    rows = {row["name"]: row for row in answer["series"]}
    assert answer["stands_in"] is True
    assert {rows["loss"]["kind"], rows["<b>top-1</b>"]["kind"]} == {"reported"}
    assert {name for name, row in rows.items() if row["kind"] == "measured"} <= {"gpu", "cpu", "memory"}
    values = [value for _, value in rows["loss"]["points"]]
    assert values == sorted(values, reverse=True)
    await stands.project("vision", 1)
    other = await stands.member("vision")
    assert (await other.get("/api/v1/workloads/reports/series")).status_code == 403
    assert (await stands.admin.get("/api/v1/workloads/none/series")).status_code == 404
