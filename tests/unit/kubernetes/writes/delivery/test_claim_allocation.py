"""The writes that allocate a resource claim, against an API server in memory."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.errors import Conflict, NotFound
from weir.kubernetes.claims.extended_resources import SpecialClaim
from weir.kubernetes.writes.delivery.claim_allocation import FINALIZER, TRIES, allocate_claim
from weir.kubernetes.writes.operations import AllocateClaim, merged

PATH = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/one"
DEVICES = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-0"}]}}
OTHERS = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-1"}]}}


SPEC = {"devices": {"requests": [{"name": "c", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}
BODY = {
    "metadata": {
        "name": "one",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": "u-p1"}],
    },
    "spec": SPEC,
}
SPECIAL = SpecialClaim(BODY, {"resourceClaimName": "one", "requestMappings": []})


class Server:
    """A claim, its version, and the writes that it took; `interferes` writes come first."""

    def __init__(self, *, interferes: int = 0, **status: Any) -> None:
        metadata = {"name": "c", "uid": "c1", "resourceVersion": "1"}
        self.claim: dict[str, Any] = {"metadata": metadata, "status": status}
        self.clock: Callable[[], float] = time.time
        self.is_there = True
        self.pod_status: dict[str, Any] = {}
        self.writes: list[str] = []
        self._interferes = interferes

    async def get(self, path: str, of: type[Any]) -> Any:
        assert path == PATH
        if not self.is_there:
            raise NotFound(404, "NotFound", "there is no such claim")
        return msgspec.convert(self.claim, of)

    async def post(self, path: str, body: dict[str, Any], of: type[Any]) -> Any:
        assert path == PATH.rpartition("/")[0]
        if self.is_there:
            raise Conflict(409, "AlreadyExists", "there is one")
        self.writes.append("made")
        self.is_there = True
        self.claim = {**body, "metadata": {**body["metadata"], "uid": "c2", "resourceVersion": "1"}}
        return msgspec.convert(self.claim, of)

    async def delete(self, path: str, *, uid: str) -> None:
        assert (path, uid) == (PATH, self.claim["metadata"]["uid"])
        assert not self.claim["metadata"].get("finalizers")
        self.writes.append("deleted")
        self.is_there = False

    async def patch(self, path: str, body: dict[str, Any], kind: Patch, of: type[Any]) -> Any:
        assert kind is Patch.MERGE
        if path == "/api/v1/namespaces/team/pods/p1/status":
            assert body["metadata"] == {"uid": "u-p1"}
            self.writes.append("pod")
            self.pod_status = body["status"]
            return None
        if self._interferes:
            self._interferes -= 1
            self._advance()
        if body["metadata"]["resourceVersion"] != self.claim["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        self.writes.append(path.removeprefix(PATH))
        self.claim = merged(self.claim, body)
        self._advance()
        return msgspec.convert(self.claim, of)

    def _advance(self) -> None:
        version = int(self.claim["metadata"]["resourceVersion"]) + 1
        self.claim = merged(self.claim, {"metadata": {"resourceVersion": str(version)}})


def write(allocation: dict[str, Any] | None = DEVICES, pod: str = "p1") -> AllocateClaim:
    return AllocateClaim(PATH, "c1", pod, f"u-{pod}", allocation)


async def allocate(server: Server, order: AllocateClaim) -> None:
    await allocate_claim(server, order)  # type: ignore[arg-type]


async def test_the_finalizer_comes_before_the_devices() -> None:
    server = Server()
    await allocate(server, write())
    assert server.writes == ["", "/status"]
    assert server.claim["metadata"]["finalizers"] == [FINALIZER]
    assert server.claim["status"] == {
        "allocation": DEVICES,
        "reservedFor": [{"resource": "pods", "name": "p1", "uid": "u-p1"}],
    }


async def test_the_same_again_changes_nothing() -> None:
    server = Server()
    await allocate(server, write())
    await allocate(server, write())
    assert server.writes == ["", "/status"]


async def test_another_pod_is_added_to_a_claim_with_devices() -> None:
    server = Server()
    await allocate(server, write())
    await allocate(server, write(None, "p2"))
    assert [each["name"] for each in server.claim["status"]["reservedFor"]] == ["p1", "p2"]
    assert server.claim["status"]["allocation"] == DEVICES


async def test_devices_of_another_scheduler_stay() -> None:
    server = Server(allocation=OTHERS)
    with pytest.raises(Conflict, match="by another scheduler"):
        await allocate(server, write())
    assert server.writes == []


async def test_a_claim_without_devices_can_not_be_reserved() -> None:
    with pytest.raises(Conflict, match="has lost its devices"):
        await allocate(Server(), write(None))


async def test_another_claim_of_the_name_is_left_alone() -> None:
    server = Server()
    server.claim["metadata"]["uid"] = "c2"
    with pytest.raises(Conflict, match="is gone"):
        await allocate(server, write())


def special(allocation: dict[str, Any] | None = DEVICES, uid: str = "") -> AllocateClaim:
    return AllocateClaim(PATH, uid, "p1", "u-p1", allocation, SPECIAL)


async def test_the_claim_for_extended_resources_is_made_and_the_pod_names_it() -> None:
    server = Server()
    server.is_there = False
    await allocate(server, special())
    assert server.writes == ["made", "", "/status", "pod"]
    assert server.claim["status"]["allocation"] == DEVICES
    assert server.pod_status == {"extendedResourceClaimStatus": SPECIAL.pod_status}
    await allocate(server, special())
    assert server.writes == ["made", "", "/status", "pod", "pod"]


async def test_a_special_claim_that_a_weir_made_before_it_was_killed_is_used() -> None:
    server = Server()
    server.claim = {**BODY, "metadata": {**BODY["metadata"], "uid": "c1", "resourceVersion": "1"}}
    await allocate(server, special())
    assert server.writes == ["", "/status", "pod"]
    assert server.claim["metadata"]["uid"] == "c1"


async def test_a_special_claim_that_requests_something_else_is_made_again() -> None:
    server = Server()
    other = {"devices": {"requests": [{"name": "c", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}
    metadata = {**BODY["metadata"], "uid": "c1", "resourceVersion": "1", "finalizers": [FINALIZER]}
    server.claim = {"metadata": metadata, "spec": other}
    await allocate(server, special(uid="c1"))
    assert server.writes == ["", "deleted", "made", "", "/status", "pod"]
    assert server.claim["spec"] == SPEC


async def test_a_special_claim_with_devices_stays_whatever_it_requests() -> None:
    server = Server(allocation=OTHERS)
    server.claim["metadata"] |= BODY["metadata"]
    with pytest.raises(Conflict, match="by another scheduler"):
        await allocate(server, special())
    assert server.writes == []


async def test_the_claim_of_another_pod_is_not_taken_for_a_special_one() -> None:
    server = Server()
    with pytest.raises(Conflict, match="made for another pod"):
        await allocate(server, special())
    assert server.writes == []


async def test_a_change_at_the_same_moment_is_read_again() -> None:
    server = Server(interferes=1)
    await allocate(server, write())
    assert server.claim["status"]["allocation"] == DEVICES
    with pytest.raises(Conflict, match="modified"):
        await allocate(Server(interferes=TRIES), write())
