"""What is kept of workloads that are over, and for how long."""

from pathlib import Path

from tests.rooms.store.given import NOW_S, end, opened, submitted

from weir.backends.local.home import Home
from weir.server.tidying import Tidying

DAY_S = 86400.0


def test_output_goes_some_time_after_its_workload_and_what_was_saved_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with opened(tmp_path) as store:
        uids = [store.submit(submitted(name)).launch.uid for name in ("over", "runs")]
        for uid in uids:
            for directory in (home.directory(uid, 1, 0, 0), home.checkpoints(uid)):
                Path(directory).mkdir(parents=True)
                Path(directory, "log").write_text("it said")
        store.journal.keep([end("over")], {})
        tidying = Tidying(store, home, 30 * DAY_S)

        def left() -> list[bool]:
            return [Path(home.directory(uid, 1, 0, 0)).exists() for uid in uids]

        tidying.tidy(NOW_S + 29 * DAY_S)
        assert left() == [True, True]
        tidying.tidy(NOW_S + 31 * DAY_S)
        assert left() == [False, True]
        assert all(Path(home.checkpoints(uid), "log").exists() for uid in uids)
