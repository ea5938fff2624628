"""Pods that another scheduler placed in the namespaces of a project, as while the webhook was away."""

from tests.unit.kubernetes.small_world import WatchProgress, node, pod, project

from weir.kubernetes.api.objects import OwnerReference
from weir.kubernetes.state.queue_view import view_of

OTHER = "default-scheduler"


def scene() -> WatchProgress:
    here = WatchProgress()
    here.see("nodes", node("n", gpus=8))
    here.see("projects", project("vision", "team", "lab"), project("speech", "lab"))
    return here


def remarks(here: WatchProgress) -> dict[str, str]:
    here.step()
    return {name: text for (_, name), text in view_of(here.cluster_state, {}).remarks.items() if text}


def test_a_project_names_the_pods_that_another_scheduler_gave_gpus_until_they_are_gone() -> None:
    here = scene()
    here.see("pods", pod("waits", scheduler=OTHER), pod("ours", on="n", start=1, devices="0"))
    assert remarks(here) == {}
    here.see("pods", pod("waits", scheduler=OTHER, on="n", gpus=2))
    here.see("pods", *(pod(f"p{at}", namespace="lab", scheduler="volcano", on="n") for at in range(4)))
    told = remarks(here)
    assert told["vision"] == (
        "6 GPUs in its namespaces are outside its quota, given by default-scheduler, volcano to "
        "lab/p0, lab/p1, lab/p2 and 2 more: delete such pods, and create them again"
    )
    assert "4 GPUs in its namespaces" in told["speech"]
    here.see("pods", pod("waits", scheduler=OTHER, on="n", gpus=2, phase="Succeeded"))
    for at in range(4):
        here.gone("pods", f"lab/p{at}", f"u-p{at}")
    assert remarks(here) == {}


def test_pods_without_gpus_of_daemonsets_and_of_other_namespaces_are_no_concern_of_a_project() -> None:
    here = scene()
    owner = OwnerReference("apps/v1", "DaemonSet", "agent", "d", controller=True)
    here.see(
        "pods",
        pod("cpu", scheduler=OTHER, on="n", gpus=0),
        pod("agent", scheduler=OTHER, on="n", owner=owner),
        pod("elsewhere", namespace="else", scheduler=OTHER, on="n"),
    )
    assert remarks(here) == {}
