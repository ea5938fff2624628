"""Numbers of a cluster as the command line counts them."""

from tests.unit.kubernetes.small_world import WatchProgress, node, pod, project

from weir.kubernetes.process.inspection import ClusterInspection
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
        inspection = ClusterInspection(cluster, Policy(), here.now_s, here.cluster_state.node_states)
        status, view = inspection.status("1", 0.0), view_of(here.cluster_state, {})
        assert (status.allocated, status.running, status.pending) == (1, 1, 1)
        assert (view.running["team"], view.pending["team"]) == (1, 1)
