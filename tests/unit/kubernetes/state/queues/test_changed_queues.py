"""Quota trees with another spec, to be tried out."""

from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.state.queues.test_leaving import Watched

from weir.model.resources import GPU


def test_another_spec_changes_one_queue_and_nothing_that_decisions_use() -> None:
    watched = Watched()
    watched.see("projects", project("team"), project("other"))
    watched.step()
    objects = watched.cluster_state.quota_objects
    before = objects.tree.queues
    tree = objects.with_spec("Project", "team", {"quota": {"gpu": 3}, "namespaces": ["team"]})
    assert {queue.name: queue.quota[GPU] for queue in tree.queues if queue.name == "team"} == {"team": 3000}
    assert [queue for queue in tree.queues if queue.name == "other"] == [
        queue for queue in before if queue.name == "other"
    ]
    assert objects.tree.queues == before
    assert not objects.changed


def test_a_new_queue_and_one_that_cant_be_used_are_distinguished() -> None:
    watched = Watched()
    watched.see("projects", project("team"))
    watched.step()
    objects = watched.cluster_state.quota_objects
    assert "new" in {
        queue.name for queue in objects.with_spec("Project", "new", {"quota": {"gpu": 1}}).queues
    }
    assert ("Department", "team") in objects.with_spec("Department", "team", {}).refused
    assert ("Project", "team") in objects.with_spec("Project", "team", {"quota": {"gpu": "x"}}).refused
    assert ("Project", "team") in objects.with_spec("Project", "team", {"department": "nowhere"}).remarks


def test_a_deleted_project_with_work_stays_in_the_tree() -> None:
    watched = Watched()
    watched.see("nodes", node("n1"))
    watched.see("projects", project("team"), project("other"))
    watched.see("owners", job("train", "j1"))
    watched.see("pods", pod("train-0", owner=("train", "j1"), on="n1", devices="0", start=1, phase="Running"))
    watched.step()
    watched.gone("projects", "team", "")
    watched.step()
    tree = watched.cluster_state.quota_objects.with_spec("Project", "other", {"quota": {"gpu": 1}})
    assert {"team", "other"} <= {queue.name for queue in tree.queues}
