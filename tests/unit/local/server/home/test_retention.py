"""Retention of ended workloads."""

from pathlib import Path

from tests.unit.store.fixtures import NOW_S, end, opened, submitted

from weir.local.records.state_dir import StateDir
from weir.local.server.home.retention import RetentionSettings, RetentionTask

DAY_S = 86400.0


def test_output_goes_some_time_after_its_workload_and_what_was_saved_stays(tmp_path: Path) -> None:
    home = StateDir(tmp_path / "home")
    with opened(tmp_path) as store:
        uids = [store.workloads.submit(submitted(name)).result().launch.uid for name in ("over", "runs")]
        for uid in uids:
            for directory in (home.directory(uid, 1, 0, 0), home.checkpoints(uid)):
                Path(directory).mkdir(parents=True)
                Path(directory, "log").write_text("it said")
                Path(directory, "start.json").write_text("{}")
        store.journal.keep([end("over")], {})
        tidying = RetentionTask(store, home, RetentionSettings(output_s=30 * DAY_S, details_s=10 * DAY_S))

        def left() -> list[bool]:
            return [Path(home.directory(uid, 1, 0, 0)).exists() for uid in uids]

        tidying.tidy(NOW_S + 9 * DAY_S)
        assert all(Path(home.directory(uid, 1, 0, 0), "start.json").exists() for uid in uids)
        tidying.tidy(NOW_S + 29 * DAY_S)
        orders = [Path(home.directory(uid, 1, 0, 0), "start.json").exists() for uid in uids]
        assert orders == [False, True]
        over, runs = store.workloads.newest("over"), store.workloads.newest("runs")
        assert over is not None
        assert runs is not None
        assert (over.record.launch.environment, runs.record.launch.environment) == ((), (("SECRET", "x"),))
        assert left() == [True, True]
        tidying.tidy(NOW_S + 31 * DAY_S)
        assert left() == [False, True]
        assert all(Path(home.checkpoints(uid), "log").exists() for uid in uids)


def test_checkpoints_go_only_where_a_time_was_set(tmp_path: Path) -> None:
    home = StateDir(tmp_path / "home")
    with opened(tmp_path) as store:
        uids = [store.workloads.submit(submitted(name)).result().launch.uid for name in ("over", "runs")]
        for uid in uids:
            Path(home.checkpoints(uid)).mkdir(parents=True)
            Path(home.checkpoints(uid), "step").write_text("7")
        (tmp_path / "elsewhere").mkdir()
        Path(home.checkpoints(uids[0]), "link").symlink_to(tmp_path / "elsewhere")
        store.journal.keep([end("over")], {})
        tidying = RetentionTask(store, home, RetentionSettings(output_s=30 * DAY_S, checkpoints_s=90 * DAY_S))

        def left() -> list[bool]:
            return [Path(home.checkpoints(uid)).exists() for uid in uids]

        tidying.tidy(NOW_S + 89 * DAY_S)
        assert left() == [True, True]
        tidying.tidy(NOW_S + 91 * DAY_S)
        assert left() == [False, True]
        assert (tmp_path / "elsewhere").exists()
