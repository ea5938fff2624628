"""Numbers of a cluster as its process answers them."""

from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod, project

from weir.kubernetes.query.cluster.numbers import pool_status, rows_of_nodes
from weir.kubernetes.state.queue_view import view_of
from weir.model.policy import Policy


def test_a_stopping_workload_counts_as_running_in_every_number() -> None:
    here = WatchProgress()
    here.see("nodes", node("n"))
    here.see("projects", project("team"))
    here.see("pods", pod("stops", on="n", start=1, devices="0", phase="Running"), pod("waits"))
    here.step()
    for is_deleted in (False, True):
        stops = pod("stops", on="n", start=1, devices="0", phase="Running", deleting=is_deleted)
        here.see("pods", stops)
        here.step()
        cluster = here.control.cluster
        assert (cluster.jobs["team/pod-stops"].stopping > 0) is is_deleted
        nodes, view = here.cluster_state.node_states, view_of(here.cluster_state, {})
        uses = {"n": nodes.device_use("n")}
        status = pool_status(cluster, uses, Policy(), version="1", started_s=0.0)
        (row,) = rows_of_nodes(cluster, uses, range(250))
        assert (status.devices, row.name, row.allocated["gpu"]) == (4, "n", 1.0)
        assert (status.allocated, status.running, status.pending) == (1, 1, 1)
        assert (view.running["team"], view.pending["team"]) == (1, 1)


def test_work_that_goes_with_its_owner_and_its_object_isnt_pending() -> None:
    here = WatchProgress()
    here.see("projects", project("team"))
    here.see("owners", job("train", "j1"))
    here.see("pods", pod("train-0", owner=("train", "j1")))
    here.step()
    assert view_of(here.cluster_state, {}).pending == {"team": 1}
    here.gone("owners", "train", "j1")
    here.see("pods", pod("train-0", owner=("train", "j1"), deleting=True))
    here.step()
    assert view_of(here.cluster_state, {}).pending == {}
