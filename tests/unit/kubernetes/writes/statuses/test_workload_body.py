"""Times in the status of a workload: its start and its end."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import BEGAN, job, pod, project
from tests.unit.kubernetes.test_backend import Scene, scene, status_of

from weir.kubernetes.api.object_numbers import moment, seconds_of
from weir.kubernetes.writes.operations import WriteDone

BEGAN_S = seconds_of(BEGAN)


def status(here: Scene) -> dict[str, Any]:
    """Return what is written: at once, and after the delay of a state that may pass."""
    here.step()
    found = status_of(here.reported())
    here.now_s += 60.0
    return {**found, **status_of(here.reported())}


def test_a_workload_that_leaves_a_project_and_waits_in_another_one_has_no_end() -> None:
    here = scene()
    here.hear("pods", pod("train-0", owner=("train", "j1"), gpus=8))
    waits = status(here)
    assert waits["phase"] == "Pending"
    here.hear("projects", project("team", "elsewhere"), project("other", "team"))
    here.step()
    moved = {**waits, **status(here)}
    assert here.control.cluster.jobs["team/job-train"].spec.project == "other"
    assert (moved["phase"], moved["endedAt"]) == ("Pending", None)


@pytest.mark.parametrize(
    ("after_s", "started_at"),
    [
        pytest.param(-0.6, BEGAN, id="Weir's clock is behind"),
        pytest.param(1.2, moment(BEGAN_S + 1), id="the clocks agree"),
        pytest.param(-3600.0, moment(BEGAN_S - 3600.0), id="the API server's clock was set"),
    ],
)
def test_a_start_is_not_before_the_submission(after_s: float, started_at: str) -> None:
    here = scene()
    here.now_s = BEGAN_S + after_s - 0.1
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    assert status(here)["startedAt"] == started_at


def test_an_end_is_not_before_the_submission() -> None:
    here = scene()
    here.now_s = BEGAN_S - 1.0
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    here.reported()
    here.hear("owners", job("train", "j1", over="Failed", over_at=BEGAN))
    here.hear("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Failed"))
    ended = status(here)
    assert (ended["phase"], ended["endedAt"]) == ("Failed", BEGAN)


def test_an_end_without_a_project_is_not_when_the_project_was_left() -> None:
    """Control ends a workload that leaves its project; the owner's end may come days later."""
    here = scene()
    here.now_s = BEGAN_S + 10.0
    here.hear("pods", pod("train-0", owner=("train", "j1"), gpus=8))
    status(here)
    here.hear("projects", project("team", "elsewhere"))
    assert status(here).get("endedAt") is None
    here.now_s = BEGAN_S + 86_400.0
    over_at = moment(BEGAN_S + 86_390.0)
    here.hear("owners", job("train", "j1", over="Failed", over_at=over_at))
    here.hear("pods", pod("train-0", owner=("train", "j1"), gpus=8, phase="Failed"))
    ended = status(here)
    assert (ended["phase"], ended["endedAt"]) == ("Failed", over_at)
