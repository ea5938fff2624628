"""Statuses of projects: only what changed is written again, and a project that is made again has nothing yet."""

from weir.kubernetes.process.control.queue_statuses import QueueStatuses
from weir.kubernetes.query.cluster.summary import ClusterSummary
from weir.kubernetes.state.queue_view import QueueView
from weir.kubernetes.writes.operations import PatchStatus

KEY = ("Project", "vision")
NUMBERS = ClusterSummary()


def view(uid: str, generation: int = 1, message: str = "") -> QueueView:
    return QueueView({KEY: generation}, {}, {KEY: message}, {}, {}, {}, {}, {KEY: uid})


def written(patch: PatchStatus) -> dict[str, object]:
    return dict(patch.patch["status"])


def test_only_what_changed_is_written_again() -> None:
    statuses = QueueStatuses()
    (first,) = statuses.take(view("a"), NUMBERS)
    assert written(first) == {"phase": "Ready", "message": "", "observedGeneration": 1}
    assert not list(statuses.take(view("a"), NUMBERS))
    (second,) = statuses.take(view("a", 2), NUMBERS)
    assert written(second) == {"observedGeneration": 2}


def test_a_project_that_is_deleted_and_made_again_gets_its_whole_status() -> None:
    statuses = QueueStatuses()
    (first,) = statuses.take(view("a"), NUMBERS)
    (again,) = statuses.take(view("b"), NUMBERS)
    assert written(again) == written(first)
    assert not list(statuses.take(view("b"), NUMBERS))


def test_a_project_that_is_gone_is_forgotten() -> None:
    statuses = QueueStatuses()
    list(statuses.take(view("a"), NUMBERS))
    assert not list(statuses.take(QueueView({}, {}, {}, {}, {}, {}, {}, {}), NUMBERS))
    assert len(list(statuses.take(view("a"), NUMBERS))) == 1
