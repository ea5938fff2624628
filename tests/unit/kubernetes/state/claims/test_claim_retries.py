"""Claims whose binding was refused, or whose Weir was stopped: no device is lost, and none is given twice."""

from dataclasses import replace

from tests.unit.kubernetes.state.claims.test_resource_claims import (
    allocated,
    claim,
    claiming,
    devices_of,
    gpus_of,
    scene,
    writes_of,
)

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import PodClaimStatus
from weir.kubernetes.state.claims.resource_claims import CLAIM_DOUBT_S, IDLE_S
from weir.kubernetes.writes.operations import PatchObject, WriteDone, WriteNotSent, WriteRefused


def test_a_refused_allocation_is_tried_again_with_the_same_devices() -> None:
    here = scene(gpus_of("n1", 2))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteRefused(409, "conflict"))
    assert here.step() == []
    (again,) = here.step(after_s=1.0)
    assert writes_of(again)[0].allocation == writes_of(bind)[0].allocation


def test_devices_of_a_refused_binding_are_free_later() -> None:
    here = scene(gpus_of("n1", 1))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteRefused(404, "gone"))
    here.backend.deliver("pods")([ObjectRemoved("team/p0", "u-p0")])
    here.hear("resourceclaims", claim("p1-gpu", 1, "u-p1"))
    here.hear("pods", claiming("p1"))
    assert here.step() == []
    (second,) = here.step(after_s=CLAIM_DOUBT_S + 1)
    assert devices_of(second) == ["gpu-0"]


def test_a_claim_that_another_scheduler_allocates_meanwhile_keeps_those_devices() -> None:
    here = scene(gpus_of("n1"))
    (bind,) = here.step()
    (write,) = writes_of(bind)
    assert write.allocation is not None
    result = {**write.allocation["devices"]["results"][0], "device": "gpu-3"}  # type: ignore[index]
    others = replace(write, allocation={**write.allocation, "devices": {"results": [result]}})
    here.hear("resourceclaims", allocated(others, claim("p0-gpu", 1, "u-p0"), pods=("other",)))
    here.backend.take_outcome(bind, WriteRefused(409, "allocated by another scheduler"))
    here.step()
    (again,) = here.step(after_s=1.0)
    assert [each.allocation for each in writes_of(again)] == [None], "it is reserved, with the devices it has"


def test_a_claim_that_is_made_again_after_a_refused_binding_is_allocated_at_once() -> None:
    here = scene(gpus_of("n1"))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteRefused(409, "gone"))
    made_again = claim("p0-gpu", 1, "u-p0")
    made_again.metadata.uid = "c-2"
    here.hear("resourceclaims", made_again)
    here.step()
    (again,) = here.step(after_s=1.0)
    assert [each.uid for each in writes_of(again)] == ["c-2"]
    assert devices_of(again) == ["gpu-0"]


def test_a_pod_made_again_gets_devices_for_its_own_claim_and_not_those_of_the_pod_before() -> None:
    here = scene(gpus_of("n1", 2))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteRefused(404, "gone"))
    here.backend.deliver("pods")([ObjectRemoved("team/p0", "u-p0")])
    here.step()
    here.hear("resourceclaims", claim("p0-gpu-2", 1, "u-p0-2"))
    successor = claiming("p0")
    successor.metadata.uid = "u-p0-2"
    successor.status.resource_claim_statuses = [PodClaimStatus("gpu", "p0-gpu-2")]
    here.hear("pods", successor)
    (again,) = here.step()
    assert [each.path.rpartition("/")[2] for each in writes_of(again)] == ["p0-gpu-2"]
    assert devices_of(again) == ["gpu-1"], "the first device may be allocated still"
    here.step(after_s=CLAIM_DOUBT_S + 1)
    assert list(here.backend.cluster_state.claims.inventory.assumed) == [("team", "p0-gpu-2")]


def test_devices_of_a_binding_that_was_not_sent_are_free_at_once() -> None:
    here = scene(gpus_of("n1", 1))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteNotSent("not leading"))
    (again,) = here.step()
    assert devices_of(again) == ["gpu-0"]


def test_a_pod_whose_claim_was_allocated_by_a_weir_that_stopped_goes_to_its_devices() -> None:
    before = scene(gpus_of("n1", 1), gpus_of("n2", 1))
    (bind,) = before.step()
    left = allocated(writes_of(bind)[0], claim("p0-gpu", 1, "u-p0"))
    here = scene(gpus_of("n1", 1), gpus_of("n2", 1))
    here.hear("resourceclaims", left)
    (again,) = here.step()
    assert (again.node, writes_of(again)[0].allocation) == (bind.node, None)
    assert here.backend.check(again) == ""


def test_devices_of_a_pod_that_can_not_be_bound_are_released() -> None:
    before = scene(gpus_of("n1", 1))
    (bind,) = before.step()
    left = allocated(writes_of(bind)[0], claim("p0-gpu", 1, "u-p0"))
    here = scene(gpus_of("n2", 1), pods=0)
    here.hear("resourceclaims", left)
    here.hear("pods", claiming("p0"))
    assert here.step() == []
    here.step(after_s=IDLE_S + 1)
    released = [each for each in here.writes if isinstance(each, PatchObject)]
    assert [each.patch["status"] for each in released] == [{"allocation": None, "reservedFor": None}]
    here.hear("resourceclaims", claim("p0-gpu", 1, "u-p0"))
    (again,) = here.step()
    assert again.node == "n2"


def test_devices_of_a_running_pod_are_not_released() -> None:
    before = scene(gpus_of("n1", 1))
    (bind,) = before.step()
    left = allocated(writes_of(bind)[0], claim("p0-gpu", 1, "u-p0"))
    here = scene(gpus_of("n1", 1), pods=0)
    here.hear("resourceclaims", left)
    here.hear("pods", claiming("p0", on="n1", start=1, devices="0", phase="Running"))
    for _ in range(3):
        here.step(after_s=IDLE_S + 1)
        assert not [each for each in here.writes if isinstance(each, PatchObject)]
    assert here.phases() == ["RUNNING"]


def test_devices_of_a_claim_that_pods_share_one_after_another_are_given_once() -> None:
    """The last doubt about the first pod's binding ends while the second one's is being written."""
    here = scene(gpus_of("n1", 2), pods=0)
    here.hear("resourceclaims", claim("shared"))
    here.hear("pods", claiming("p0", "shared"))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    here.hear("resourceclaims", allocated(writes_of(bind)[0], claim("shared")))
    here.step()
    here.gone("p0")
    here.hear("resourceclaims", claim("shared"))
    here.step()
    here.hear("pods", claiming("p1", "shared"))
    (again,) = here.step(after_s=CLAIM_DOUBT_S - 1)
    assert devices_of(again) == ["gpu-0"]
    here.step(after_s=2.0)
    here.hear("resourceclaims", claim("p2-gpu", 1, "u-p2"))
    here.hear("pods", claiming("p2"))
    (other,) = here.step()
    assert devices_of(other) == ["gpu-1"]
