"""GPUs of suspended Jobs that request them by resource claims: there is no pod yet, and no claim of its own."""

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import job
from tests.unit.kubernetes.state.claims.test_resource_claims import GPU, claim, device_class, gpus_of
from tests.unit.kubernetes.state.pods.test_suspended_jobs import begun, suspended, told
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.resource_objects import ResourceClaimTemplate

FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "pair"}
BY_NAME = {"name": "gpu", "resourceClaimName": "shared"}


def template(count: int = 2, name: str = "pair", *, device: str = GPU) -> ResourceClaimTemplate:
    exactly = {"deviceClassName": device, "allocationMode": "ExactCount", "count": count}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "team"}, "spec": spec}, ResourceClaimTemplate
    )


def claiming(*claims: dict[str, str], scheduler: str = "weir", gpus: str = "0", pods: int = 2) -> Scene:
    here = begun(suspended(resourceClaims=list(claims), scheduler=scheduler, gpus=gpus, pods=pods))
    here.hear("deviceclasses", device_class())
    here.hear("resourceslices", gpus_of("n1"))
    return here


def shown(here: Scene) -> tuple[str, list[tuple[int, str]]]:
    """Return the GPUs of the only workload, and the pods and GPUs of its groups."""
    (row,) = told(here).values()
    return row["gpus"], [(group["count"], group.get("gpus", "0")) for group in row["groups"]]


@pytest.mark.parametrize("scheduler", ["weir", "default-scheduler"])
def test_each_pod_counts_the_claim_that_is_made_for_it(scheduler: str) -> None:
    here = claiming(FROM_TEMPLATE, scheduler=scheduler)
    here.hear("resourceclaimtemplates", template())
    assert shown(here) == ("4", [(2, "2")])


def test_a_claim_that_all_pods_name_counts_once() -> None:
    here = claiming(BY_NAME, pods=3)
    here.hear("resourceclaims", claim("shared", 4))
    assert shown(here) == ("4", [(1, "4"), (2, "0")])


def test_gpus_by_number_and_by_claim_add_up() -> None:
    here = claiming(FROM_TEMPLATE, BY_NAME, gpus="1")
    here.hear("resourceclaimtemplates", template())
    here.hear("resourceclaims", claim("shared", 1))
    assert shown(here) == ("7", [(1, "4"), (1, "3")])


def test_a_template_that_comes_later_or_changes_is_counted() -> None:
    here = claiming(FROM_TEMPLATE)
    assert shown(here)[0] == "0"
    here.hear("resourceclaimtemplates", template())
    assert shown(here)[0] == "4"
    here.hear("resourceclaimtemplates", template(3))
    assert shown(here)[0] == "6"


def test_a_named_claim_that_comes_later_or_is_made_again_is_counted() -> None:
    here = claiming(BY_NAME)
    assert shown(here)[0] == "0"
    here.hear("resourceclaims", claim("shared", 4))
    assert shown(here)[0] == "4"
    again = claim("shared", 3)
    again.metadata.uid = "another"
    here.hear("resourceclaims", again)
    assert shown(here)[0] == "3"


def test_a_job_of_another_scheduler_is_known_once_its_template_comes() -> None:
    here = claiming(FROM_TEMPLATE, scheduler="default-scheduler")
    assert told(here) == {}
    here.hear("resourceclaimtemplates", template())
    assert shown(here)[0] == "4"


@pytest.mark.parametrize("device", ["nic.example.com", "missing"])
def test_claims_of_other_devices_count_as_no_gpus(device: str) -> None:
    here = claiming(FROM_TEMPLATE)
    here.hear("deviceclasses", device_class("nic.example.com"))
    here.hear("resourceclaimtemplates", template(device=device))
    assert shown(here)[0] == "0"


def test_the_pods_of_a_resumed_job_have_their_own_groups() -> None:
    here = claiming(BY_NAME)
    here.hear("resourceclaims", claim("shared", 4))
    assert shown(here)[0] == "4"
    resumed: Any = job("held", "uid-held", 2)
    here.hear("owners", resumed)
    here.hear("resourceclaimtemplates", template())
    here.step()
    (gang,) = here.backend.cluster_state.registry.gangs.values()
    assert gang.head is not None
    assert not gang.head.derived.suspended
