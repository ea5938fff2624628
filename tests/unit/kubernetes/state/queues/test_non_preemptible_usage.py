"""Pods that named their node: what passes a quota counts as preemptible, and is reclaimed first."""

from typing import Any

from tests.unit.kubernetes.small_world import node, pod, project
from tests.unit.kubernetes.state.workloads.test_allocations import record
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.kubernetes.crd.objects import AllocationStatus
from weir.kubernetes.writes.operations import Bind, Evict, WriteDone


def fixed(name: str, namespace: str = "team", **more: Any) -> Any:
    made = pod(name, namespace=namespace, **more)
    made.metadata.annotations["weir.dev/preemptible"] = "false"
    return made


def begun(quota: int = 4) -> Scene:
    made = Scene()
    made.hear("nodes", node("n1", gpus=8), node("n2", gpus=8))
    made.hear("projects", project("team", gpus=quota), project("others", gpus=12))
    return made


def specs(here: Scene) -> dict[str, tuple[bool, bool]]:
    jobs = here.control.cluster.jobs.values()
    return {each.name.rpartition("/")[2]: (each.spec.preemptible, each.spec.overrun) for each in jobs}


def test_a_pod_that_bound_itself_past_the_quota_gives_way_to_work_in_quota() -> None:
    here = begun()
    here.hear("pods", *(fixed(f"self-{at}", gpus=8, on=f"n{at}", phase="Running") for at in (1, 2)))
    here.hear("pods", fixed("mine", "others", gpus=4))
    (evict,) = here.step()
    assert isinstance(evict, Evict)
    assert specs(here)["pod-self-1"] == specs(here)["pod-self-2"] == (True, True)


def test_a_forged_annotation_does_not_make_a_binding_weirs() -> None:
    here = begun()
    for at in (1, 2):
        here.hear(
            "pods",
            fixed(f"self-{at}", gpus=8, on=f"n{at}", devices="0,1,2,3,4,5,6,7", start=at, phase="Running"),
        )
    here.hear("pods", fixed("mine", "others", gpus=4))
    assert [type(each) for each in here.step()] == [Evict]


def test_within_its_quota_a_pod_that_bound_itself_is_what_it_says() -> None:
    here = begun()
    here.hear(
        "pods",
        fixed("self-1", gpus=4, on="n1", phase="Running"),
        fixed("self-2", gpus=1, on="n2", phase="Running"),
    )
    here.step()
    assert specs(here) == {"pod-self-1": (False, False), "pod-self-2": (True, True)}


def test_what_weir_bound_stays_what_it_is_when_its_quota_shrinks() -> None:
    """After a restart too: the status says that Weir bound it."""
    here = begun(quota=8)
    here.hear("pods", fixed("kept", gpus=8))
    (bind,) = here.step()
    assert isinstance(bind, Bind)
    here.backend.take_outcome(bind, WriteDone())
    answer = {"on": bind.node, "devices": bind.annotations["weir.dev/gpus"], "start": 1, "phase": "Running"}
    here.hear("pods", fixed("kept", gpus=8, **answer))
    here.step()
    here.now_s += 2.0
    (kept,) = status_of(here.reported())["allocations"]
    assert "selfBound" not in kept
    after = begun(quota=2)
    allocation = AllocationStatus(
        "u-kept", bind.node, kept["devices"], start=1, preemptible=kept["preemptible"]
    )
    after.hear("workloads", record("pod-kept", "u-kept", allocation))
    after.hear("pods", fixed("kept", gpus=8, **answer))
    after.step()
    assert specs(after) == {"pod-kept": (False, False)}


def test_a_restart_does_not_launder_a_pod_that_bound_itself() -> None:
    here = begun()
    here.hear("pods", fixed("self", gpus=8, on="n1", devices="0,1,2,3,4,5,6,7", start=1, phase="Running"))
    here.step()
    here.now_s += 2.0
    (kept,) = status_of(here.reported())["allocations"]
    assert kept["selfBound"] is True
    after = begun()
    allocation = AllocationStatus("u-self", "n1", kept["devices"], start=kept["start"], self_bound=True)
    after.hear("workloads", record("pod-self", "u-self", allocation))
    after.hear("pods", fixed("self", gpus=8, on="n1", phase="Running"))
    after.step()
    assert specs(after) == {"pod-self": (True, True)}


def test_what_bound_itself_past_the_quota_goes_before_other_borrowers() -> None:
    here = begun(quota=2)
    here.hear("projects", project("borrower", gpus=0))
    here.hear(
        "pods",
        pod(
            "borrows",
            namespace="borrower",
            gpus=8,
            on="n1",
            devices="0,1,2,3,4,5,6,7",
            start=1,
            phase="Running",
        ),
    )
    here.hear("pods", fixed("self", gpus=8, on="n2", phase="Running"))
    here.hear("pods", fixed("mine", "others", gpus=4))
    (evict,) = here.step()
    assert evict.name == "self"


def test_a_borrower_that_says_later_that_it_is_not_preemptible_gives_way_all_the_same() -> None:
    """After a restart too: the status says how Weir let it run."""
    here = begun(quota=2)
    here.hear("pods", pod("borrows", gpus=8))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    answer = {"on": bind.node, "devices": bind.annotations["weir.dev/gpus"], "start": 1, "phase": "Running"}
    here.hear("pods", fixed("borrows", gpus=8, **answer))
    here.step()
    assert specs(here) == {"pod-borrows": (True, False)}
    after = begun(quota=2)
    allocation = AllocationStatus("u-borrows", bind.node, list(range(8)), start=1)
    after.hear("workloads", record("pod-borrows", "u-borrows", allocation))
    after.hear("pods", fixed("borrows", gpus=8, **answer))
    after.step()
    assert specs(after) == {"pod-borrows": (True, False)}


def test_its_own_project_may_stop_it_too() -> None:
    here = begun()
    here.hear("pods", *(fixed(f"self-{at}", gpus=8, on=f"n{at}", phase="Running") for at in (1, 2)))
    here.hear("pods", fixed("proper", gpus=4))
    (evict,) = here.step()
    assert evict.name in {"self-1", "self-2"}
