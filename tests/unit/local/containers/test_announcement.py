"""Announcement that an image is fetched, as the pool takes it in."""

import json
import os
import time
from pathlib import Path

import pytest

from weir.local.containers import announcement
from weir.local.machine.environment import GangRank
from weir.local.pods.message_reader import JobMessageReader
from weir.local.pods.running_pods import RunningPod
from weir.local.processes.fd_watcher import FdWatcher
from weir.local.records.pod_records import FETCHES, JobMessage, TimeBounds
from weir.state.events import Placement, PodKey


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunningPod:
    own = tmp_path / "jobs" / "1" / "1-0-0"
    own.mkdir(parents=True)
    monkeypatch.setenv("WEIR_POD_DIRECTORY", str(own))
    monkeypatch.setenv("WEIR_NOTES", str(tmp_path / "gone" / "notes.sock"))
    place = Placement(PodKey("w", 0, 0), "node", ())
    return RunningPod(place, 1, 1, f"{tmp_path}/pods/1/1-0-0", time.time(), GangRank())


def _told(run: RunningPod) -> list[str]:
    told: list[str] = []

    def noted(_pod: PodKey, _uid: int, message: JobMessage) -> None:
        told.append(message.kind)

    bounds = TimeBounds(0.0, time.time() + 60)
    reader = JobMessageReader(
        FdWatcher(), lambda _: bounds, lambda *_: None, noted, lambda *_: pytest.fail("it can be read")
    )
    reader.read(run)
    reader.read(run)
    return told


def test_fetching_is_reported_once_however_often_a_job_says_so(run: RunningPod) -> None:
    announcement.announce(FETCHES)
    own = os.environ["WEIR_POD_DIRECTORY"]
    line = json.dumps({"kind": FETCHES, "at_s": time.time()}) + "\n"
    with Path(own, "notes.jsonl").open("a") as file:
        file.write(line * 500)
        file.write(json.dumps({"kind": "report", "at_s": time.time(), "values": {"loss": 1}}) + "\n")
    assert _told(run) == [FETCHES, "report"]


def test_link_in_the_place_of_the_messages_is_not_followed(run: RunningPod, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    Path(os.environ["WEIR_POD_DIRECTORY"], "notes.jsonl").symlink_to(tmp_path / "other")
    announcement.announce(FETCHES)
    assert (tmp_path / "other").read_text() == "kept"
