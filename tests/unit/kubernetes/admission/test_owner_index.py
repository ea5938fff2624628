"""Pods that become Weir's by their owners: what the webhook finds out, in time and within bounds."""

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.admission.test_webhooks import KEY, answers, served
from tests.unit.kubernetes.translate.test_gpu_templates import GPU, replicas, template

from weir.kubernetes.admission.owner_index import WAITING_IN_ONE_MAX, OwnerIndex
from weir.kubernetes.admission.reviews import QuotaTree
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import KubePod, OwnerReference
from weir.kubernetes.crd.objects import OwnerObject
from weir.kubernetes.crd.queue_tree import QueueObject
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.kinds import load_kinds

MPI = OwnerReference("kubeflow.org/v2beta1", "MPIJob", "mpi", "m", controller=True)
JOB = OwnerReference("batch/v1", "Job", "mpi-launcher", "mj", controller=True)
SPEC = replicas("mpi", Launcher=template(), Worker=template(GPU))
QUICK_S = 0.05


def index(**more: Any) -> OwnerIndex:
    return OwnerIndex(load_kinds(), DeviceResources().names, **more)


def there(
    reference: OwnerReference, spec: dict[str, Any], above: OwnerReference | None = None, generation: int = 1
) -> ObjectSet[OwnerObject]:
    metadata = {
        "name": reference.name,
        "namespace": "team",
        "uid": reference.uid,
        "generation": generation,
        "ownerReferences": [] if above is None else [msgspec.to_builtins(above)],
    }
    return ObjectSet(
        f"team/{reference.name}", msgspec.convert({"metadata": metadata, "spec": spec}, OwnerObject)
    )


async def test_an_owner_at_any_level_counts() -> None:
    found = index(wait_s=QUICK_S)
    cpu = OwnerReference("batch/v1", "Job", "cpu", "c", controller=True)
    found.deliver(
        [there(MPI, SPEC), there(JOB, {"template": template()}, MPI), there(cpu, {"template": template()})]
    )
    assert await found.has_gpus("team", JOB)
    assert await found.has_gpus("team", MPI)
    assert not await found.has_gpus("team", cpu)
    assert not await found.has_gpus("team", None)
    site = OwnerReference("example.com/v1", "Website", "site", "s", controller=True)
    assert not await found.has_gpus("team", site)


async def test_a_review_waits_for_owners_that_come_a_moment_later() -> None:
    looked_for = []
    found = index(look_again=lambda *kind: looked_for.append(kind))
    reviews = [asyncio.create_task(found.has_gpus("team", JOB)) for _ in range(3)]
    await asyncio.sleep(0)
    found.deliver([there(JOB, {}, MPI)])
    await asyncio.sleep(0)
    assert not any(each.done() for each in reviews)
    found.deliver([there(MPI, SPEC)])
    assert await asyncio.gather(*reviews) == [True] * 3
    assert {kind for _, kind in looked_for} == {"Job", "MPIJob"}
    assert not found._awaited
    assert not found._waiting


async def test_owners_that_never_come_are_waited_for_within_bounds() -> None:
    found = index(wait_s=1.0)
    false = [OwnerReference("batch/v1", "Job", "x", f"x{at}", controller=True) for at in range(100)]
    began_s = time.monotonic()
    reviews = [asyncio.create_task(found.has_gpus("evil", each)) for each in false]
    await asyncio.sleep(0)
    assert len(found._awaited) == WAITING_IN_ONE_MAX
    other = asyncio.create_task(found.has_gpus("team", MPI))
    await asyncio.sleep(0)
    found.deliver([there(MPI, SPEC)])
    assert await other, "another namespace's reviews are answered"
    assert not any(await asyncio.gather(*reviews))
    assert time.monotonic() - began_s < 60.0, "they were waited for side by side"
    assert not found._awaited
    assert not found._waiting


async def test_what_an_owner_says_now_counts() -> None:
    found = index(wait_s=QUICK_S)
    found.deliver([there(JOB, {"template": template()}, generation=1)])
    assert not await found.has_gpus("team", JOB)
    found.deliver([there(JOB, {"template": template(GPU)}, generation=2)])
    assert await found.has_gpus("team", JOB)
    changes: list[Change[OwnerObject]] = [ObjectRemoved("team/mpi-launcher", JOB.uid)]
    found.deliver(changes)
    assert not await found.has_gpus("team", JOB)
    assert len(found) == 0


class Asked:
    """An API that notes what is asked for, and has one pod."""

    def __init__(self, pod: KubePod) -> None:
        self.paths: list[str] = []
        self._pod = pod

    async def get(self, path: str, _of: type[KubePod]) -> KubePod:
        self.paths.append(path)
        return self._pod


async def test_a_pod_that_owns_pods_is_asked_for_once_and_only_by_its_name() -> None:
    leader = msgspec.convert(
        {
            "metadata": {"name": "serve-0", "uid": "p", "ownerReferences": []},
            "spec": {"containers": [{"name": "main", "resources": {"limits": GPU}}]},
        },
        KubePod,
    )
    api = Asked(leader)
    found = index(wait_s=QUICK_S, api=api)
    reference = OwnerReference("v1", "Pod", "serve-0", "p", controller=True)
    workers = OwnerReference("apps/v1", "StatefulSet", "serve-0", "w", controller=True)
    found.deliver([there(workers, {"template": template()}, reference)])
    for _ in range(2):
        assert await found.has_gpus("team", workers)
    assert api.paths == ["/api/v1/namespaces/team/pods/serve-0"]
    another = OwnerReference("v1", "Pod", "serve-0", "q", controller=True)
    assert not await found.has_gpus("team", another), "another pod had this name"
    for name in ("../secrets/s", "a?watch=true", "a\r\nX: y", "", "A", "a" * 254):
        asked = len(api.paths)
        assert not await found.has_gpus("team", OwnerReference("v1", "Pod", name, "h", controller=True))
        assert len(api.paths) == asked, name


async def test_owners_in_a_circle_end() -> None:
    found = index(wait_s=QUICK_S)
    found.deliver([there(JOB, {}, MPI), there(MPI, {}, JOB)])
    assert not await found.has_gpus("team", JOB)


def review(scheduler: str = "default-scheduler", namespace: str = "team", **pod: Any) -> bytes:
    metadata = {"name": "p", "ownerReferences": [msgspec.to_builtins(JOB)], **pod.pop("metadata", {})}
    written = {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": [], **pod}}
    return json.dumps(
        {"request": {"uid": "u", "kind": {"kind": "Pod"}, "namespace": namespace, "object": written}}
    ).encode()


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (review(), True),
        (review("kai-scheduler"), False),
        (review(namespace="elsewhere"), False),
        (review(nodeName="n1"), False),
        (review(metadata={"ownerReferences": []}), False),
        (review(metadata={"ownerReferences": [{"kind": "Job", "controller": True}]}), None),
    ],
)
async def test_whose_pods_become_members(body: bytes, becomes: bool | None, tmp_path: Path) -> None:
    owners = index(wait_s=QUICK_S)
    owners.deliver([there(MPI, SPEC), there(JOB, {}, MPI)])
    known = QuotaTree(projects={"vision": QueueObject("vision", {"namespaces": ["team"]}, 0.0)})
    ((status, answer),) = await answers(
        served(known, owners=owners), [("POST", f"/members/{KEY}", body)], tmp_path
    )
    if becomes is None:
        assert status == 400
        return
    response = json.loads(answer)["response"]
    assert response["allowed"]
    assert ("patch" in response) is becomes


async def test_members_are_reviewed_by_a_port_that_opens_before_any_owner_is_known(tmp_path: Path) -> None:
    known = QuotaTree(projects={"vision": QueueObject("vision", {"namespaces": ["team"]}, 0.0)})
    ((status, answer),) = await answers(
        served(known, owners=index(wait_s=QUICK_S)), [("POST", f"/members/{KEY}", review())], tmp_path
    )
    assert status == 200
    assert "patch" not in json.loads(answer)["response"]


def job_review(restarts: str = "Never", **spec: Any) -> bytes:
    made = {
        "metadata": {"name": "mpi-launcher", "ownerReferences": [msgspec.to_builtins(MPI)]},
        "spec": {"template": {"spec": {"containers": [], "restartPolicy": restarts}}, **spec},
    }
    request = {"uid": "u", "kind": {"kind": "Job"}, "namespace": "team", "object": made}
    return json.dumps({"request": request}).encode()


async def test_a_job_of_members_counts_evictions_as_no_failures(tmp_path: Path) -> None:
    owners = index(wait_s=QUICK_S)
    owners.deliver([there(MPI, SPEC)])
    known = QuotaTree(projects={"vision": QueueObject("vision", {"namespaces": ["team"]}, 0.0)})
    bodies = [job_review(), job_review("OnFailure"), b'{"request": {"uid": "u", "object": {"spec": 3}}}']
    asks = [("POST", f"/members/{KEY}", body) for body in bodies]
    (added, left, wrong) = await answers(served(known, owners=owners), asks, tmp_path)
    patch = json.loads(base64.b64decode(json.loads(added[1])["response"]["patch"]))
    assert "DisruptionTarget" in str(patch)
    assert not any("schedulerName" in each["path"] for each in patch)
    assert "patch" not in json.loads(left[1])["response"]
    assert wrong[0] == 400
