"""Reports about the workloads of one namespace while many of another one start or wait."""

import pytest

from weir.api.answers import Explanation
from weir.kubernetes.writes.operations import Bind, WriteDone
from weir.kubernetes.writes.statuses import statuses

from .small_world import job, node, pod, project
from .test_backend import Scene
from .test_burst import MANY, tell


def crowd(gpus: int) -> Scene:
    """Decide on many Jobs of one pod in one namespace, and then on one Job of another namespace."""
    here = Scene()
    here.hear("nodes", node("n1", gpus=gpus))
    here.hear("projects", project("team", gpus=gpus), project("other", gpus=gpus))
    for at in range(MANY):
        here.hear("owners", job(f"j{at}", f"uid{at}"))
        here.hear("pods", pod(f"j{at}-0", owner=(f"j{at}", f"uid{at}")))
    bind(here)
    here.hear("owners", job("alone", "uid", namespace="other"))
    here.hear("pods", pod("alone-0", owner=("alone", "uid"), namespace="other"))
    bind(here)
    return here


def bind(here: Scene) -> None:
    for each in here.step():
        assert isinstance(each, Bind)
        here.backend.take_outcome(each, WriteDone())
    here.step()


def wait(here: Scene) -> None:
    """Give all pending workloads a reason."""
    names = [name for name, job_ in here.control.cluster.jobs.items() if any(job_.pending)]
    why = Explanation(why="insufficient_capacity", sentence="There is no capacity.", numbers={})
    here.backend.reasons.update(dict.fromkeys(names, why))
    here.backend.statuses.reasons_changed(names)


def test_a_workload_is_reported_while_many_of_another_namespace_start() -> None:
    here = crowd(MANY + 1)
    assert tell(here, 0.1) == {}, "it may run in a moment"
    on = {"owner": ("alone", "uid"), "on": "n1", "start": 1, "devices": str(MANY), "phase": "Running"}
    here.hear("pods", pod("alone-0", namespace="other", **on))  # type: ignore[arg-type]
    here.step()
    (writes,) = tell(here, 3.0).values()
    assert writes[-1].path.endswith("/namespaces/other/workloads/job-alone")
    assert writes[-1].patch["status"]["phase"] == "Running"


def test_a_reason_is_reported_while_many_of_another_namespace_start() -> None:
    here = crowd(MANY)
    wait(here)
    (writes,) = tell(here, 0.1).values()
    assert writes[-1].patch["status"]["reason"]["why"] == "insufficient_capacity"


@pytest.mark.parametrize("busy", [True, False])
def test_namespaces_take_turns_where_more_wait_than_are_written_at_once(
    monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    monkeypatch.setattr(statuses, "AT_ONCE", 4)
    monkeypatch.setattr(statuses, "WAITING_AT_ONCE", 4)
    here = crowd(0)
    wait(here)
    waiting = here.backend.statuses
    here.now_s += 1.0
    written = waiting.take_waiting(here.now_s, busy=True) if busy else waiting.take(here.now_s)
    paths = {each.object_path for each in written if hasattr(each, "object_path")}
    assert any("/namespaces/other/" in path for path in paths)
    assert any("/namespaces/team/" in path for path in paths)
