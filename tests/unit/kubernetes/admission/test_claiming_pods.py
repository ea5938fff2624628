"""Pods that become Weir's by their resource claims: what the webhook looks up, and within which bounds."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.admission.test_webhooks import KEY, answers, served
from tests.unit.kubernetes.state.claims.test_resource_claims import GPU, claim

from weir.kubernetes.admission.claiming_pods import Claimant, ClaimedClasses, claimant
from weir.kubernetes.admission.reviews import PodRules, QuotaTree
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.resource_objects import ResourceClaim, ResourceClaimTemplate
from weir.kubernetes.crd.queue_tree import QueueObject

KNOWN = QuotaTree(projects={"vision": QueueObject("vision", {"namespaces": ["team"]}, 0.0)})
RULES = PodRules("weir", {"nvidia.com/gpu"}.__contains__)
TEMPLATE, CLAIM = "resourceclaimtemplates", "resourceclaims"


class Claims:
    """An API that notes what is asked for, and has these claims and templates."""

    def __init__(self, **found: ResourceClaim) -> None:
        self.paths: list[str] = []
        self._found = found

    async def get(self, path: str, of: type[Any]) -> Any:
        self.paths.append(path)
        name = path.rpartition("/")[2]
        if name not in self._found:
            raise NotFound(404, "NotFound", "there is none")
        body = msgspec.to_builtins(self._found[name])
        if of is ResourceClaimTemplate:
            body = {"metadata": {"name": name}, "spec": {"spec": body["spec"]}}
        return msgspec.convert(body, of)


def looked_up(api: Any, **more: Any) -> ClaimedClasses:
    return ClaimedClasses(api, [GPU].__contains__, **more)


def pod_with(*sources: tuple[str, str]) -> Claimant:
    return Claimant("team", sources, [])


def request(kind: str = "Pod", *, namespace: str = "team", owner: str = "", **spec: Any) -> dict[str, Any]:
    """Return a review of a pod with a claim, or of a Job of such pods."""
    pod = {"containers": [{"name": "main"}], **spec}
    pod.setdefault("resourceClaims", [{"name": "gpu", "resourceClaimTemplateName": "one"}])
    body = pod if kind == "Pod" else {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
    owners = [{"kind": owner, "controller": True}] if owner else []
    made = {"metadata": {"name": "p", "ownerReferences": owners}, "spec": body}
    return {"uid": "u", "kind": {"kind": kind}, "namespace": namespace, "object": made}


def test_a_pod_with_claims_may_be_weirs_where_a_project_is() -> None:
    found = claimant(request(), KNOWN, RULES)
    assert found is not None
    assert found.sources == ((TEMPLATE, "one"),)
    patched = {each["path"]: each["value"] for each in found.patch}
    assert patched["/spec/schedulerName"] == "weir"
    assert patched["/metadata/labels/weir.dev~1project"] == "vision"


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "elsewhere"},
        {"schedulerName": "kai-scheduler"},
        {"nodeName": "n1"},
        {"owner": "DaemonSet"},
        {"resourceClaims": []},
    ],
)
def test_no_other_pod_is_looked_at(other: dict[str, Any]) -> None:
    assert claimant(request(**other), KNOWN, RULES) is None


def test_a_job_of_such_pods_gets_the_defaults_of_jobs() -> None:
    found = claimant(request("Job"), KNOWN, RULES)
    assert found is not None
    assert "/spec/podFailurePolicy" in [each["path"] for each in found.patch]


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        (claim("one"), True),
        (claim("one", deviceClassName="nic.example.com"), False),
        (claim("one", adminAccess=True), False),
    ],
)
async def test_the_class_that_is_claimed_decides(written: ResourceClaim, ours: bool) -> None:
    assert await looked_up(Claims(one=written)).are_claimed(pod_with((TEMPLATE, "one"))) is ours
    assert await looked_up(Claims(one=written)).are_claimed(pod_with((CLAIM, "one"))) is ours


async def test_any_alternative_of_any_claim_counts() -> None:
    exactly = [
        {"name": "small", "deviceClassName": "nic.example.com"},
        {"name": "large", "deviceClassName": GPU},
    ]
    spec = {"devices": {"requests": [{"name": "either", "firstAvailable": exactly}]}}
    either = msgspec.convert({"metadata": {"name": "either"}, "spec": spec}, ResourceClaim)
    api = Claims(nic=claim("nic", deviceClassName="nic.example.com"), either=either)
    assert await looked_up(api).are_claimed(pod_with((CLAIM, "nic"), (CLAIM, "either")))


async def test_a_template_is_read_once_for_many_pods() -> None:
    api = Claims(one=claim("one"))
    found = looked_up(api)
    for _ in range(3):
        assert await found.are_claimed(pod_with((TEMPLATE, "one")))
    assert api.paths == ["/apis/resource.k8s.io/v1/namespaces/team/resourceclaimtemplates/one"]


@pytest.mark.parametrize("name", ["missing", "..", "a/b", "", "A"])
async def test_what_is_not_there_or_no_name_leaves_a_pod_alone(name: str) -> None:
    api = Claims()
    assert not await looked_up(api).are_claimed(pod_with((TEMPLATE, name)))
    assert all(path.endswith("/missing") for path in api.paths)


async def test_a_slow_api_server_keeps_no_pod() -> None:
    class Hangs:
        async def get(self, _path: str, _of: type[Any]) -> Any:
            await asyncio.Event().wait()

    assert not await looked_up(Hangs(), wait_s=0.05).are_claimed(pod_with((TEMPLATE, "one")))


async def test_the_webhook_patches_a_pod_whose_template_names_gpus(tmp_path: Path) -> None:
    what = served(KNOWN, claims=looked_up(Claims(one=claim("one"))))
    body = json.dumps({"request": request()}).encode()
    none = json.dumps({"request": request(resourceClaims=[{"name": "x", "resourceClaimName": "gone"}])})
    path = f"/claims/{KEY}"
    (status, answer), (_, other) = await answers(
        what, [("POST", path, body), ("POST", path, none.encode())], tmp_path
    )
    assert status == 200
    patch = json.loads(base64.b64decode(json.loads(answer)["response"]["patch"]))
    assert {"op": "add", "path": "/spec/schedulerName", "value": "weir"} in patch
    assert json.loads(other)["response"] == {"uid": "u", "allowed": True}
