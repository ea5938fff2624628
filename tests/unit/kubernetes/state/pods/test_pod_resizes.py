"""Pods that are resized in place take of their node what it has allocated, until it has allocated otherwise."""

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import WatchProgress, node, pod, project

from weir.kubernetes.api.objects import ContainerResources, KubePod


def resized(
    made: KubePod, wanted: str, allocated: str, used: str, why: str = "", *, container: str = "containers"
) -> KubePod:
    """Return a pod with a container that wants these CPUs, on a node that has allocated and uses others."""
    body = msgspec.to_builtins(made)
    (main,) = body["spec"]["containers"]
    status = {
        "name": main["name"],
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": used}},
    }
    if container == "initContainers":
        main = {**main, "name": "side", "restartPolicy": "Always", "resources": {"requests": {}}}
        body["spec"]["initContainers"] = [main]
        body["status"]["initContainerStatuses"] = [{**status, "name": "side"}]
    else:
        body["status"]["containerStatuses"] = [status]
    main["resources"]["requests"]["cpu"] = wanted
    pending = {"type": "PodResizePending", "status": "True", "reason": why}
    body["status"]["conditions"] = [pending] if why else []
    return msgspec.convert(body, KubePod)


def free_cpus(made: KubePod) -> int:
    """Return the CPUs that a node of 64 has left beside a pod of another scheduler."""
    here = WatchProgress()
    here.see("nodes", node("n1"))
    here.see("pods", made)
    here.step()
    (found,) = [each for each in here.control.cluster.nodes if each is not None]
    return found.capacity["cpu"] // 1000


def foreign(**more: Any) -> KubePod:
    return pod("other", scheduler="default-scheduler", on="n1", gpus=0, **more)


@pytest.mark.parametrize(
    ("wanted", "allocated", "used", "why", "left"),
    [
        ("2", "2", "2", "", 62),
        ("2000m", "2", "2.0", "", 62),
        ("2", "30", "30", "", 34),  # its node hasn't taken anything away yet
        ("2", "2", "30", "", 34),
        ("30", "2", "2", "Deferred", 34),  # it is the next to get them
        ("9999", "2", "2", "Infeasible", 62),
        ("1", "odd", "2", "", 63),
    ],
)
def test_a_foreign_pod_takes_what_its_node_has_allocated(
    wanted: str, allocated: str, used: str, why: str, left: int
) -> None:
    assert free_cpus(resized(foreign(), wanted, allocated, used, why)) == left


def test_a_sidecar_takes_what_its_node_has_allocated() -> None:
    assert free_cpus(resized(foreign(), "2", "30", "30", container="initContainers")) == 64 - 30 - 1


def test_a_pod_with_amounts_of_its_own_takes_what_its_node_has_allocated_to_it_as_a_whole() -> None:
    made = foreign()
    made.spec.resources = ContainerResources(requests={"cpu": "2"})
    made.status.resources = ContainerResources(requests={"cpu": "30"})
    made.status.allocated_resources = {"cpu": "2"}
    assert free_cpus(made) == 34


def test_a_pod_of_weir_that_asks_its_node_for_too_much_runs_on_as_before() -> None:
    here = WatchProgress()
    here.see("nodes", node("n1"))
    here.see("projects", project("team"))
    bound = pod("a", on="n1", start=1, devices="0", phase="Running")
    here.see("pods", bound)
    here.step()
    (before,) = here.control.cluster.jobs.values()
    group = before.spec.groups[0]
    here.see("pods", resized(pod("a", on="n1", start=1, devices="0"), "9999", "1", "1", "Infeasible"))
    here.step()
    (after,) = here.control.cluster.jobs.values()
    assert after.spec.groups[0] == group
    assert here.pods() == {"team/a": ("RUNNING", "n1")}
